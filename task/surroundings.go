package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"millrace/task/param"
)

// Secret says where the value of a secret variable is found on the node.
type Secret struct {
	// File holds the value; a line end at its end is not part of it.
	File string `json:"file"`
}

// SecretParams are the files that the secret parameters of a task name, by the names of the parameters.
func (w *Work) SecretParams() map[string]string {
	var params map[string]json.RawMessage
	if len(w.Secrets) == 0 || json.Unmarshal(w.Params, &params) != nil {
		return nil
	}
	files := map[string]string{}
	for _, name := range w.Secrets {
		if file, ok := param.FileOf(params[name]); ok {
			files[name] = file
		}
	}
	return files
}

// MaxSecret is the largest secret that is read, in bytes.
const MaxSecret = 32 << 10

func (r *Run) validateSurroundings() error {
	if len(r.Inherit) > 0 && !r.EnvClear {
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
