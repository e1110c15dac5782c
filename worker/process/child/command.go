package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"

	"millrace/ipc"
	"millrace/task/job"
)

// Command says what to start. Exactly one of Argv, Shell and Container is set.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of
	// Env; relative entries of PATH are skipped.
	Argv []string
	// Shell is a line for /bin/sh -c.
	Shell string
	// Dir is the working directory. Default: the worker's own.
	Dir string
	// Fresh tells that Dir is an empty one, made for the command.
	Fresh bool `json:",omitempty"`
	// Env is the complete environment, as "name=value"; the worker's own is
	// not added. [MarkerVar] is set in any case.
	Env []string
	// OpenStdin keeps the standard input open for messages such as CANCEL.
	// Default: it ends at once.
	OpenStdin bool
	// Alone keeps other processes of this Runner from looking into it, unless [Confinement.Open].
	Alone bool `json:",omitempty"`
	// Messages says which messages on the standard output count; the others are log text. Default:
	// all of them.
	Messages ipc.Gate
	// Watched makes [Running.Told] work.
	Watched bool `json:",omitempty"`
	// Encoding is that of the output, one of [job.Encodings]. Default UTF-8.
	Encoding string `json:",omitempty"`
	// Grace is how long the process group has from the request to stop (SIGTERM) until it is
	// killed. 0 or less kills it at once.
	Grace time.Duration
	// Started, if set, is called with the process before any of its output is read.
	Started func(Process) `json:"-"`
	// Resources bound what the process, and everything that it starts, may use. Resources.Output is
	// left to the receiver of the output.
	Resources job.Resources
	// Container has it run in a container, with bounds of its own in place of Resources.
	Container *Container `json:",omitempty"`
	// Own tells that it is a program of the worker's own, which keeps all rights.
	Own bool `json:",omitempty"`
	// Limit, if set, is called with the cause when the process must stop, and can shorten the
	// grace.
	Limit func(cause error) time.Duration `json:"-"`

	// Credential is the identity of another user. Default: the worker's own.
	Credential *syscall.Credential `json:"-"`
}

// Process is a running process.
type Process interface {
	// Send writes a message to its standard input, if that is open. It does not block: messages
	// that the process does not read are queued up to 1 MiB, and dropped beyond that.
	Send(ipc.Message)
	// Limits describes in words which bounds are in force, and by what means.
	Limits() string
}

func (c *Command) argv() ([]string, error) {
	switch {
	case c.Container != nil:
		return c.Container.argv(), nil
	case c.Shell != "" && len(c.Argv) == 0:
		return []string{"/bin/sh", "-c", c.Shell}, nil
	case c.Shell != "":
		return nil, errors.New("both a program and a shell line are given: choose one")
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return nil, errors.New("no program is given: set a program or a shell line")
	}
	return c.Argv, nil
}

// lookPath finds the file of a program. It searches the disk only for a name without a slash;
// whether any other can be run, the kernel says at the start.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var path string
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v // as for the process, the last value counts
		}
	}
	found := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
		found = syscall.EACCES
	}
	return "", found
}

// inDir is where a file lies that the program names, unless it is "".
func (c *Command) inDir(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(c.Dir, file)
}

// explain says in words why a program could not be started, and what to do. The kernel's error
// alone does not say which file it concerns.
func (c *Command) explain(program, file string, err error) string {
	say := func(advice string) string {
		return fmt.Sprintf("cannot start %s: %v: %s", program, err, advice)
	}
	if c.Dir != "" {
		if info, statErr := os.Stat(c.Dir); statErr != nil {
			return say(fmt.Sprintf("the working directory %s cannot be entered; create it on this node or change dir", c.Dir))
		} else if !info.IsDir() {
			return say(fmt.Sprintf("the working directory %s is not a directory; change dir", c.Dir))
		} else if unix.Access(c.Dir, unix.X_OK) != nil {
			return say(fmt.Sprintf("the working directory %s may not be entered by the worker's user; change its permissions", c.Dir))
		}
	}
	file = c.inDir(file)
	info, statErr := os.Stat(file)
	switch {
	case errors.Is(err, syscall.ENOENT) && statErr == nil:
		return say(uninterpreted(file))
	case errors.Is(err, syscall.ENOENT):
		return say(c.absent(program))
	case errors.Is(err, syscall.EACCES) && statErr == nil && info.IsDir():
		return say("it is a directory; name a program")
	case errors.Is(err, syscall.EACCES):
		return say("it may not be executed by the worker's user; chmod +x it, or call its interpreter")
	case errors.Is(err, syscall.ENOEXEC):
		return say("it is no program for this machine; give a script a first line such as #!/bin/sh")
	case errors.Is(err, syscall.E2BIG):
		return say("arguments and environment are too large; pass the data in a file")
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return say("the node is out of processes or memory; lower the worker's slots or raise its limits")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return say("the worker is out of file descriptors; raise its limit (ulimit -n) or lower its slots")
	case errors.Is(err, syscall.ETXTBSY):
		return say("something still writes to the file; try again when that is done")
	case errors.Is(err, syscall.EINVAL):
		return say("an argument or a variable of the environment holds a zero byte")
	}
	return say("see the node's system log")
}

// encodingOf returns the encoding with a name of [job.Encodings], or nil for UTF-8, which needs no
// conversion.
func encodingOf(name string) (encoding.Encoding, error) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "", "utf-8", "utf8", "unicode-1-1-utf-8":
		return nil, nil
	case "utf-16", "utf16":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), nil // as Windows writes it
	}
	if e, err := ianaindex.IANA.Encoding(name); err == nil && e != nil {
		return e, nil
	}
	if e, err := htmlindex.Get(name); err == nil && e != encoding.Replacement {
		return e, nil
	}
	if err := job.ValidEncoding(name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("nothing converts the encoding %q", name)
}
