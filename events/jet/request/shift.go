package request

import (
	"os"
	"strings"
	"time"
)

// ShiftEnv names the file from which a process reads, each time it reads its machine's clock, by how
// much it is to believe that clock ahead. `millrace chaos` plays wrong clocks by it.
const ShiftEnv = "MILLRACE_CHAOS_CLOCK"

// Shifted returns the clock of this machine, changed by the duration in a file. The file is read
// each time; without one the clock is right.
func Shifted(path string) func() time.Time {
	if path == "" {
		return time.Now
	}
	return func() time.Time {
		text, _ := os.ReadFile(path) // without one, the clock is right
		shift, _ := time.ParseDuration(strings.TrimSpace(string(text)))
		return time.Now().Round(0).Add(shift)
	}
}
