package chaos

import (
	"os/exec"
	"runtime"
)

// spawner starts processes that die with this one, even if it is killed. The kernel ties them to
// the thread that started them, so one thread does nothing else and stays.
type spawner struct{ orders chan func() }

func newSpawner() *spawner {
	s := &spawner{orders: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for do := range s.orders {
			do()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes()
	failed := make(chan error)
	s.orders <- func() { failed <- cmd.Start() }
	return <-failed
}

// close is called when all processes have ended.
func (s *spawner) close() { close(s.orders) }
