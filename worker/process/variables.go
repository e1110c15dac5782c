package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"millrace/task/job"
	"millrace/worker"
)

// fileSuffix ends the name of a variable whose value is the path of a file that holds another
// variable's value.
const fileSuffix = "_FILE"

// handOver puts variables that are too long for an environment into files: the program finds the
// path in a variable whose name ends in [fileSuffix]. Only variables that Millrace itself sets are
// handed over so. The files belong to the program alone, and are removed when the attempt has
// ended.
//
// A text to run that begins with #! goes into such a file, too. Argv then is how its interpreter runs
// it, as the kernel would; it is nil for any other text.
func (t *Tasks) handOver(env []string, p *place, a *worker.Attempt, as *account) (_, argv []string, err error) {
	folder := ""
	if argv = interpreter(a.Task.Spec.Run.Shell); argv != nil {
		if folder, err = t.extraFolder(p, a, as); err == nil {
			argv = append(argv, filepath.Join(folder, "script"))
			err = writeFor(as, argv[len(argv)-1], a.Task.Spec.Run.Shell)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the text begins with #! and cannot be put into a file: %w; free some space, or set TMPDIR of the worker", err)
		}
	}
	for i, e := range env {
		if len(e) < job.MaxVariable {
			continue
		}
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "MILLRACE_") {
			return nil, nil, fmt.Errorf("the variable %s has %d bytes with its name, and a program can be given at most %d: put the value into a file and pass its path", name, len(e), job.MaxVariable-1)
		}
		if folder == "" {
			if folder, err = t.extraFolder(p, a, as); err != nil {
				return nil, nil, fmt.Errorf("%s has %d bytes and cannot be put into a file: %w; free some space, or set TMPDIR of the worker", name, len(value), err)
			}
		}
		path := filepath.Join(folder, strings.ToLower(name))
		if err := writeFor(as, path, value); err != nil {
			return nil, nil, fmt.Errorf("%s has %d bytes and cannot be put into a file: %w; free some space, or set TMPDIR of the worker", name, len(value), err)
		}
		env[i] = name + fileSuffix + "=" + path
	}
	return env, argv, nil
}

// interpreter returns the program that the first line of a text names behind #!, with its argument if
// it has one; nil if there is none.
func interpreter(text string) []string {
	line, script := strings.CutPrefix(text, "#!")
	if !script {
		return nil
	}
	line, _, _ = strings.Cut(line, "\n")
	program, argument, _ := strings.Cut(strings.Trim(line, " \t\r"), " ")
	if argument = strings.Trim(argument, " \t"); argument != "" {
		return []string{program, argument}
	}
	if program == "" {
		return nil
	}
	return []string{program}
}

// extraFolder makes a directory for files of an attempt that are not part of its working directory.
func (t *Tasks) extraFolder(p *place, a *worker.Attempt, as *account) (string, error) {
	// The next worker knows, and removes, only the fresh directory; and what a container sees must be
	// in a folder that no other user can enter.
	if t.Keeps(&a.Task) || a.Task.Spec.Run.Image != "" {
		if p.fresh != "" {
			p.extra = filepath.Join(p.fresh, ".millrace")
			return p.extra, madeFor(as, p.extra)
		}
		dir, err := keptDir(t.work())
		if err != nil {
			return "", err
		}
		p.fresh, p.leave = dir.whole, func() { removeDir(dir) }
		if as == nil || as.credential == nil {
			return dir.path, nil
		}
		return dir.path, giveDir(dir, as.uid, as.gid)
	}
	dir, err := t.dirs.get(t.work())
	if err != nil {
		return "", err
	}
	leave := p.leave
	p.leave = func() { t.dirs.put(dir); leave() }
	if as != nil && as.credential != nil {
		err = t.dirs.give(dir, as.uid, as.gid)
	}
	return dir.path, err
}

func madeFor(as *account, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	return givenTo(as, folder)
}

func writeFor(as *account, path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return givenTo(as, path)
}

// givenTo makes the user that an attempt runs as the owner of a file.
func givenTo(as *account, path string) error {
	if as == nil || as.credential == nil {
		return nil
	}
	return os.Chown(path, as.uid, as.gid)
}
