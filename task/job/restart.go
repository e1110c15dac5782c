package job

import (
	"errors"
	"fmt"
	"slices"

	"millrace/task/value"
)

// Values of [Spec.OnRestart]: what happens to an attempt whose worker ends first.
const (
	// RestartStop ends the attempt: it is given back, or lost, and the task starts anew.
	RestartStop = "stop"
	// RestartAdopt leaves it running. The node's next worker continues it if it comes in time.
	// Otherwise it is stopped before another node can have started the task.
	RestartAdopt = "adopt"
)

// Restarts lists the values of [Spec.OnRestart].
var Restarts = value.WordsOf[Spec]("on_restart")

// Adopts tells whether an attempt outlives its worker. With an unknown spec it does not.
func (s *Spec) Adopts() bool { return s != nil && s.OnRestart == RestartAdopt && s.Run != nil }

func (s *Spec) validateRestart() error {
	switch {
	case s.OnRestart == "" || s.OnRestart == RestartStop:
		return nil
	case !slices.Contains(Restarts, s.OnRestart):
		return fmt.Errorf("on_restart is %q, want %s or %s", s.OnRestart, RestartStop, RestartAdopt)
	case s.Run == nil:
		return errors.New("on_restart: adopt is for commands: a handler ends with the program that it is part of")
	case s.Run.Program != "":
		return errors.New("on_restart: adopt and run.program are both set: a program that stays alive ends with its worker")
	case s.Continues():
		return errors.New("on_restart: adopt and on_disconnect: continue are both set; choose one: an attempt without a worker cannot go on without an end")
	case s.Files != nil && s.Files.Mode == FilesShared:
		return errors.New("on_restart: adopt needs files of its own, which no other worker removes: set files.mode to copy or link")
	}
	return nil
}
