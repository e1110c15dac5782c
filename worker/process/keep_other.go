//go:build !linux

package process

import (
	"context"
	"errors"
	"io"
	"syscall"

	"millrace/task"
	"millrace/worker"
	"millrace/worker/process/child"
)

// Keeps tells whether attempts of a task outlive the worker: never on this system.
func (t *Tasks) Keeps(*task.Task) bool { return false }

// ShimMain works on Linux only.
func ShimMain(io.Reader, io.Writer) error {
	return errors.New("shim: this system cannot keep processes beside a worker")
}

func (t *Tasks) goOn(context.Context, *worker.Attempt) worker.Outcome { return worker.Outcome{} }

func (t *Tasks) runKept(context.Context, *session, child.Command, []string, place) worker.Outcome {
	return worker.Outcome{}
}

// changeTime is unknown here, so no directory is used again.
func changeTime(string) (syscall.Timespec, error) {
	return syscall.Timespec{}, errors.ErrUnsupported
}
