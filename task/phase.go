package task

// Phases of an attempt.
const (
	// PhaseSetup readies its files and runs its setup commands, within timeout.setup.
	PhaseSetup = "setup"
	// PhaseRun is the command itself, within timeout.run.
	PhaseRun = "run"
	// PhaseStop is from when it was asked to end until nothing is left of it, within timeout.stop.
	PhaseStop = "stop"
)
