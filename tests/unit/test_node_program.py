"""What `moor-node leave` removes of Moorage itself: what the join script laid down, and never somebody's checkout."""

from pathlib import Path

from moorage.machines.on_machine.program import remove_program


def test_what_the_script_made_goes(tmp_path: Path) -> None:
    versions, command = tmp_path / "opt", tmp_path / "bin/moor-node"
    for version in ("old", "new"):
        (versions / version / ".venv/bin").mkdir(parents=True)
        (versions / version / ".complete").touch()
    (versions / "current").symlink_to(versions / "new")
    command.parent.mkdir()
    command.symlink_to(versions / "current/.venv/bin/moor-node")
    for _ in range(2):
        remove_program(versions / "new/.venv", command)
        assert not versions.exists()
        assert not command.is_symlink()


def test_a_checkout_and_a_command_of_somebody_else_stay(tmp_path: Path) -> None:
    checkout, command = tmp_path / "opt/checkout", tmp_path / "moor-node"
    (checkout / ".venv").mkdir(parents=True)
    command.symlink_to("/usr/bin/true")
    remove_program(checkout / ".venv", command)
    assert (checkout / ".venv").exists()
    assert command.is_symlink()
    (checkout / ".complete").touch()
    (tmp_path / "opt/current").symlink_to(checkout)
    remove_program(checkout / ".venv", command)
    assert not checkout.exists()
    assert command.is_symlink(), "it leads elsewhere"
