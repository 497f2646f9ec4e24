import CSimulation
import Glibc

if csimulation_settle(CommandLine.unsafeArgv) != 0 {
    print("simulation: addresses differ from run to run here; hashes do not")
}
exit(SimulationCommand(CommandLine.arguments.dropFirst()).run())
