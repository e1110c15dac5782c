package birth

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"millrace/task/job"
)

// Triggered returns the submission that follows from something outside: members of it, a JSON value, are the
// parameters that the job declares under their names. Nothing is an empty object.
func Triggered(of *job.Job, by []byte) (Submission, error) {
	s := Submission{Job: of.Name, Params: map[string]json.RawMessage{}}
	by = bytes.TrimSpace(by)
	switch {
	case len(by) == 0:
		by = []byte("{}")
	case !json.Valid(by) || !utf8.Valid(by):
		return s, errors.New("it is not JSON")
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(by, &members) // another value than an object has none
	for name, is := range members {
		if of.Params.Find(name) != nil {
			s.Params[name] = is
		}
	}
	if len(of.Params.Declared) == 0 || of.Params.Find(job.PayloadParam) != nil {
		s.Params[job.PayloadParam] = by
	}
	return s, nil
}
