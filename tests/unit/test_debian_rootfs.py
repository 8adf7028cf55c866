"""Which packages the example image is made of, from what apt prints."""

from moorage.entrypoints.debian_rootfs import closure, parse_dependencies

REPORT = """\
python3.11-minimal
  PreDepends: libc6
  Depends: libpython3.11-minimal
  Depends: libexpat1
libc6
  Depends: libgcc-s1
  Depends: libcrypt1
libpython3.11-stdlib
 |Depends: media-types
  Depends: mime-support
  Depends: libc6
 |Depends: <virtual-first>
    provider-of-it
  Depends: second-choice
  Depends: <only-virtual>
    another-provider
tzdata
 |Depends: debconf
  Depends: <debconf-2.0>
    cdebconf
    debconf
debconf
  PreDepends: perl-base
<virtual-first>
<debconf-2.0>
libgcc-s1
  Depends: gcc-12-base
  Depends: libc6
"""


def test_first_real_alternative_is_taken() -> None:
    dependencies = parse_dependencies(REPORT)
    assert dependencies["libpython3.11-stdlib"] == ["media-types", "libc6", "second-choice"]
    assert dependencies["python3.11-minimal"] == ["libc6", "libpython3.11-minimal", "libexpat1"]
    assert dependencies["tzdata"] == ["debconf"]
    assert not any(name.startswith("<") for name in dependencies)


def test_closure_ends_at_cycles_and_at_what_an_image_has_no_use_for() -> None:
    dependencies = parse_dependencies(REPORT)
    assert closure(dependencies, ["libc6"]) == ["gcc-12-base", "libc6", "libcrypt1", "libgcc-s1"]
    assert closure(dependencies, ["tzdata"]) == ["tzdata"]
