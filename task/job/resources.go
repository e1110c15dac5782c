package job

import (
	"fmt"

	"millrace/task/value"
)

// Resources bounds what one attempt, with all its processes, may use of its node. Zero means no
// bound. How a node enforces it depends on the node's means; the usage of the attempt records which
// bounds were in force.
type Resources struct {
	// Memory is how much memory the processes may use together. Beyond it the attempt fails with
	// class memory.
	Memory value.Size `json:"memory,omitempty"`
	// CPU is the processor time that they may use, in processors; 0.5 is half of one.
	CPU float64 `json:"cpu,omitempty"`
	// PIDs is the largest number of processes and threads.
	PIDs int `json:"pids,omitempty"`
	// FileSize is the largest size of a file that they write.
	FileSize value.Size `json:"file_size,omitempty"`
	// Output is how many bytes of standard output and error are kept: the beginning, and of the end
	// a quarter of Output, at most 256 KiB. The middle is dropped, and a line says how much it was.
	// A worker may allow less.
	Output value.Size `json:"output,omitempty"`
}

func (r Resources) validate() error {
	switch {
	case r.Memory < 0 || r.FileSize < 0 || r.Output < 0:
		return fmt.Errorf("resources: a size is below zero")
	case r.Memory > 0 && r.Memory < 1<<20:
		return fmt.Errorf("resources.memory is %v, want at least 1MiB: no program starts in less", r.Memory)
	case !(r.CPU >= 0 && r.CPU <= 1<<16): // so that it refuses NaN, too
		return fmt.Errorf("resources.cpu is %v, want a number of processors", r.CPU)
	case r.CPU > 0 && r.CPU < 0.01:
		return fmt.Errorf("resources.cpu is %v, want at least 0.01", r.CPU)
	case r.PIDs < 0:
		return fmt.Errorf("resources.pids is %d, want 0 or more", r.PIDs)
	}
	return nil
}
