from moorage.machines.on_machine.commands import main

main()
