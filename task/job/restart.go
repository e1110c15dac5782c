package job

import (
	"errors"
	"fmt"
	"slices"
)

// What becomes of an attempt whose worker ends before it.
const (
	// RestartStop ends it: it is given back, or lost, and starts anew.
	RestartStop = "stop"
	// RestartAdopt leaves it running, and the next worker of the node goes on with it if
	// that comes in time. Else it is stopped before anybody else can have started the task.
	RestartAdopt = "adopt"
)

// Restarts lists the values of [Spec.OnRestart].
var Restarts = []string{RestartStop, RestartAdopt}

// Adopts tells whether an attempt outlives its worker. A spec that is not known does not.
func (s *Spec) Adopts() bool { return s != nil && s.OnRestart == RestartAdopt && s.Run != nil }

func (s *Spec) validateRestart() error {
	switch {
	case s.OnRestart == "" || s.OnRestart == RestartStop:
		return nil
	case !slices.Contains(Restarts, s.OnRestart):
		return fmt.Errorf("on_restart is %q, want %s or %s", s.OnRestart, RestartStop, RestartAdopt)
	case s.Run == nil:
		return errors.New("on_restart: adopt is for commands: a handler ends with the program that it is part of")
	case s.Continues():
		return errors.New("on_restart: adopt and on_disconnect: continue are both set; choose one: what nobody attends cannot go on without an end")
	case s.Files != nil && s.Files.Mode == FilesShared:
		return errors.New("on_restart: adopt needs files of its own, which no other worker removes: set files.mode to copy or link")
	}
	return nil
}
