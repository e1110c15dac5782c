package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Survivors finds the processes that have a variable in their environment. Only root can read the
// environment of workers and servers, so for other users one counts if its parent was found.
func Survivors(variable string) []Survivor {
	var found []Survivor
	concealed := map[int]int{}                  // their parents
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(folder, "environ"))
		switch {
		case errors.Is(err, os.ErrPermission):
			concealed[pid] = parent(pid)
		case err == nil && slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(v []byte) bool { return string(v) == variable }):
			found = append(found, survivorAt(pid))
		}
	}
	for i := 0; i < len(found); i++ {
		for pid, parent := range concealed {
			if parent == found[i].PID {
				found = append(found, survivorAt(pid))
			}
		}
	}
	return found
}

func survivorAt(pid int) Survivor {
	command, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return Survivor{pid, strings.ReplaceAll(string(command), "\x00", " ")}
}

// parent returns the parent of a process, or 0 if the process is gone.
func parent(pid int) (of int) {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	_, _ = fmt.Sscanf(string(rest), "%1s %d", new(string), &of)
	return of
}

// Reapable tells whether a process has ended so far that its parent can see it:
// it loses its environment a moment before that.
func Reapable(pid int) bool {
	state, err := stateOf(pid)
	return err != nil || state == 'Z' // or it was reaped already
}

// Suspended tells whether a process is stopped by a signal.
func Suspended(pid int) bool {
	state, err := stateOf(pid)
	return err == nil && state == 'T'
}

func stateOf(pid int) (state byte, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if _, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, '(')+1:], []byte(") ")); ok {
		state = rest[0]
	}
	return state, err
}
