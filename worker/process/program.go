package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// withProgram adds to an environment where this program is, so that a task can call `millrace ipc`:
// its path, and at the end of PATH its folder. A folder that any user may write to stays out, for
// what lies there could be anything.
func (t *Tasks) withProgram(env []string) []string {
	if t.Program == "" {
		return env
	}
	env = append(env, "MILLRACE_EXE="+t.Program)
	dir := filepath.Dir(t.Program)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o002 != 0 || strings.ContainsRune(dir, os.PathListSeparator) {
		return env
	}
	for _, e := range slices.Backward(env) { // the last value counts
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			if !slices.Contains(filepath.SplitList(path), dir) {
				env = append(env, e+string(os.PathListSeparator)+dir)
			}
			break
		}
	}
	return env
}
