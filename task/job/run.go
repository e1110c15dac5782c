package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task/value"
)

// Run describes a child process. Exactly one of Argv, Shell and Program is set, or Image and none of them.
type Run struct {
	// Argv is the program and its arguments, passed unchanged.
	Argv []string `json:"argv,omitempty" redact:"hide" read:"scalar" short:"list"`
	// Shell is a line for "sh -c". A text that begins with #! is run by the interpreter that it names.
	Shell string `json:"shell,omitempty" redact:"hide" read:"line" short:"text"`
	// Program is a line for "sh -c" that starts a program which stays alive and runs one task after the
	// other: those whose Run, but for Handler, and files, setup and resources are the same.
	Program string `json:"program,omitempty" redact:"hide" read:"line"`
	// Handler is which of the program's handlers runs the task. Default: the only one that it has.
	Handler string `json:"handler,omitempty" redact:"keep" names:"handler"`
	// Dir is the working directory; by default a fresh one, removed afterwards.
	Dir string `json:"dir,omitempty" redact:"hide"`
	// Env is added to the worker's environment and wins over it.
	Env map[string]string `json:"env,omitempty" redact:"hide"`
	// Stdin is the standard input of the process. Default none.
	Stdin string `json:"stdin,omitempty" redact:"word" words:"none,open"`
	// Messages says what counts of what the process prints without the key of its attempt: one of
	// [MessageRules]. A worker may be stricter. Default [MessagesReports].
	Messages string `json:"messages,omitempty" redact:"word" words:"open,records,reports,keyed,off"`
	// ParamsEnv gives each parameter as a variable, too, as [Variables] names it. Files and Env win
	// over them. Default: the process gets all of them as one, MILLRACE_PARAMS.
	ParamsEnv bool `json:"params_env,omitempty"`
	// Encoding is the name of the encoding in which the process prints, as IANA or browsers know
	// it: its lines and messages are converted to UTF-8. Default UTF-8.
	Encoding string `json:"encoding,omitempty" redact:"word"`
	// User runs the process as another user of the node, by name or number, with that user's
	// groups. The worker needs the permission for that. Default: the worker's own user.
	User string `json:"user,omitempty" redact:"hide" read:"scalar"`
	// EnvClear leaves out the worker's environment, except the variables in Inherit and PATH, HOME,
	// USER, LANG and TZ. Default: the process gets all of it.
	EnvClear bool `json:"env_clear,omitempty"`
	// Inherit names variables of the worker that are kept despite EnvClear.
	Inherit []string `json:"inherit,omitempty" redact:"keep" read:"any"`
	// EnvFiles are files on the node with lines NAME=value, relative to Dir. Later files win over
	// earlier ones, and Env wins over all of them.
	EnvFiles []string `json:"env_files,omitempty" redact:"hide" read:"any"`
	// Secrets are variables whose values the worker reads on the node when the attempt starts. They
	// win over Env. The worker replaces their values in all output of the process.
	Secrets map[string]Secret `json:"secrets,omitempty"`
	// Image runs the command in a container of this image. Without Argv and Shell that is the image's
	// own command, in the image's own directory. A relative Dir is below the attempt's directory,
	// which the container sees at the same path; an absolute one is the image's. The environment is
	// the image's, with Inherit and all that is not the worker's own. Default: no container.
	Image string `json:"image,omitempty" redact:"hide" read:"line"`
	// Pull says when the worker fetches the image. Default [PullMissing].
	Pull string `json:"pull,omitempty" redact:"word" words:"missing,always,never"`
	// Mounts are folders and files of the node that the container sees, as [ParseMount] reads them.
	Mounts []string `json:"mounts,omitempty" redact:"hide" read:"any"`
	// Network is none, host, bridge or the name of a network of the runtime. Default: as the runtime
	// is set up.
	Network string `json:"network,omitempty" redact:"hide" read:"line"`
	// Runtime is the program that runs the image. Default: the first of them that the node has.
	Runtime string `json:"runtime,omitempty" redact:"word" words:"podman,docker,nerdctl"`
}

// MaxVariable bounds the length of an argument, and of a variable with its name, in bytes: each
// must be shorter. It is the bound of Linux. Parameters may be longer: the program finds those in a
// file.
const MaxVariable = 128 << 10

// Values of [Run.Stdin].
const (
	// StdinNone is an empty input: a program that reads it to its end continues at once.
	StdinNone = "none"
	// StdinOpen is an input that stays open and carries messages, such as CANCEL.
	StdinOpen = "open"
)

func (r *Run) validate() error {
	switch {
	case r.Program != "":
		if err := r.validateProgram(); err != nil {
			return err
		}
	case r.Handler != "":
		return errors.New("run.handler names one of the handlers of run.program, which is not set; a handler of a worker is named by handler, in place of run")
	case len(r.Argv) == 0 && r.Shell == "" && r.Image == "":
		return errors.New("run: set argv (a list), shell (a line) or program (a line)")
	case len(r.Argv) > 0 && r.Shell != "":
		return errors.New("run: argv and shell are both set; choose one")
	case len(r.Argv) > 0 && r.Argv[0] == "":
		return errors.New("run.argv: the program's name is empty")
	case r.Stdin != "" && r.Stdin != StdinNone && r.Stdin != StdinOpen:
		return fmt.Errorf("run.stdin is %q, want %s or %s", r.Stdin, StdinNone, StdinOpen)
	case r.Messages != "" && !slices.Contains(MessageRules, r.Messages):
		return fmt.Errorf("run.messages is %q, want one of %s", r.Messages, strings.Join(MessageRules, ", "))
	}
	for k, v := range r.Env {
		if n := len(k) + 1 + len(v); n >= MaxVariable {
			return fmt.Errorf("run.env: %s has %d bytes with its name, and a program can be given at most %d: put the value into a file, or into params", k, n, MaxVariable-1)
		}
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return fmt.Errorf("run.env: %q=%q cannot be an environment variable", k, v)
		}
	}
	if err := ValidEncoding(r.Encoding); err != nil {
		return err
	}
	if err := r.validateImage(); err != nil {
		return err
	}
	if err := r.validateSurroundings(); err != nil {
		return err
	}
	for _, a := range append(slices.Clone(r.Argv), r.Shell, r.Program, r.Dir, r.User) {
		if len(a) >= MaxVariable {
			return fmt.Errorf("run: an argument or the shell line has %d bytes, and a program can be given at most %d: put it into a file, or into params", len(a), MaxVariable-1)
		}
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("run: %q holds a zero byte, which no process can be given", a)
		}
	}
	return nil
}

// validateProgram refuses what a program that runs several tasks cannot have.
func (r *Run) validateProgram() error {
	alone := func(field, why string) error {
		return fmt.Errorf("run.%s and run.program are both set: %s", field, why)
	}
	switch {
	case len(r.Argv) > 0:
		return alone("argv", "choose one")
	case r.Shell != "":
		return alone("shell", "choose one")
	case r.Image != "":
		return alone("image", "programs that stay alive run on the node itself")
	case r.Stdin == StdinNone:
		return alone("stdin", "a program that stays alive is given its tasks there, so it is open")
	case r.Messages == MessagesOff:
		return alone("messages", "a program that stays alive speaks by messages, so they cannot be off")
	case r.ParamsEnv:
		return alone("params_env", "a program that stays alive has other parameters with each task; its library gives them")
	case strings.TrimSpace(r.Program) == "":
		return errors.New("run.program is empty, want a line such as python3 app.py")
	case r.Handler != "":
		return value.ValidName("run.handler", r.Handler)
	}
	return nil
}

// Secret says where on the node the value of a secret variable lies.
type Secret struct {
	// File holds the value. One line end at its end is not part of the value.
	File string `json:"file" redact:"hide" read:"line"`
}

// MaxSecret is the size of the largest secret that a worker reads, in bytes.
const MaxSecret = 32 << 10

func (r *Run) validateSurroundings() error {
	if len(r.Inherit) > 0 && !r.EnvClear && r.Image == "" {
		return errors.New("run.inherit has a meaning only with run.env_clear: true")
	}
	for _, name := range r.Inherit {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("run.inherit: %q cannot be an environment variable", name)
		}
	}
	for _, file := range r.EnvFiles {
		if file == "" || strings.ContainsRune(file, 0) {
			return fmt.Errorf("run.env_files: %q is no file", file)
		}
	}
	for name, s := range r.Secrets {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("run.secrets: %q cannot be an environment variable", name)
		case s.File == "" || strings.ContainsRune(s.File, 0):
			return fmt.Errorf("run.secrets: %s needs a file on the node to be read from: {file: /run/secrets/%s}", name, strings.ToLower(name))
		}
	}
	return nil
}
