package job

import (
	"fmt"

	"millrace/task/value"
)

// Resources bounds what one attempt, with all its processes, may use of its
// node. Zero means no bound. How a node enforces it depends on what it can do;
// what was in force is part of what an attempt has used.
type Resources struct {
	// Memory is how much the processes may hold together. When it is exceeded the
	// attempt fails with class memory.
	Memory value.Size `json:"memory,omitempty"`
	// CPU is how many processors' time they may use; 0.5 is half of one.
	CPU float64 `json:"cpu,omitempty"`
	// PIDs is how many processes and threads there may be.
	PIDs int `json:"pids,omitempty"`
	// FileSize is how large a file that they write may become.
	FileSize value.Size `json:"file_size,omitempty"`
	// Output is how many bytes of standard output and error are kept of the attempt: the first of
	// them, and of the last a quarter of Output, at most 256 KiB. What is between
	// is dropped, and a line says how much it was. A worker may allow less.
	Output value.Size `json:"output,omitempty"`
}

func (r Resources) validate() error {
	switch {
	case r.Memory < 0 || r.FileSize < 0 || r.Output < 0:
		return fmt.Errorf("resources: a size is below zero")
	case r.Memory > 0 && r.Memory < 1<<20:
		return fmt.Errorf("resources.memory is %v, want at least 1MiB: no program starts in less", r.Memory)
	case !(r.CPU >= 0 && r.CPU <= 1<<16): // so that NaN is refused, too
		return fmt.Errorf("resources.cpu is %v, want a number of processors", r.CPU)
	case r.CPU > 0 && r.CPU < 0.01:
		return fmt.Errorf("resources.cpu is %v, want at least 0.01", r.CPU)
	case r.PIDs < 0:
		return fmt.Errorf("resources.pids is %d, want 0 or more", r.PIDs)
	}
	return nil
}
