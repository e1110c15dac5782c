package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task/limit"
	"millrace/task/value"
)

// Unique refuses a task while another task with the same key is in certain states. The state of
// that task is the lock: nothing must be released, so no lock can be left behind. The zero value
// refuses nothing.
type Unique struct {
	// Key must be unique among tasks at a time, expanded like that of [limit.Concurrency]: within
	// one job, or across all jobs if it begins with /.
	Key string `json:"key,omitempty" redact:"template"`
	// While are the states in which the other task blocks this one. Default: all states but the
	// terminal ones.
	While []string `json:"while,omitempty" redact:"word" words:"scheduled,held,pending,running,retrying,cancelling,finished,error,cancelled,abnormal"`
	// TTL is how long the other task blocks at most, from its submission. Default: no bound.
	TTL value.Duration `json:"ttl,omitempty"`
	// OnConflict is the answer to a refused submission: [ConflictFail], the default, or
	// [ConflictReturn].
	OnConflict string `json:"on_conflict,omitempty" redact:"word" words:"fail,return"`
}

// Values of [Unique.OnConflict].
const (
	ConflictFail   = "fail"   // an error that names the other task
	ConflictReturn = "return" // the other task, as if it were its own
)

// Conflicts lists the values of [Unique.OnConflict].
var Conflicts = value.WordsOf[Unique]("on_conflict")

// validate refuses an invalid key, and names the field.
func (u *Unique) validate() error {
	switch {
	case u.Key == "" && (len(u.While) > 0 || u.TTL != 0 || u.OnConflict != ""):
		return errors.New("unique.key is missing: what no two tasks may have in common")
	case u.TTL < 0:
		return fmt.Errorf("unique.ttl is %v, want 0 or more", u.TTL)
	case u.OnConflict != "" && !slices.Contains(Conflicts, u.OnConflict):
		return fmt.Errorf("unique.on_conflict is %q, want %s or %s", u.OnConflict, ConflictFail, ConflictReturn)
	}
	for _, name := range u.While {
		if err := value.ValidState(name); err != nil {
			return fmt.Errorf("unique.while: %w", err)
		}
	}
	return limit.ValidKey("unique.key", u.Key)
}

// Collapse makes one task of several submissions: one that finds a task with the same key waiting for its
// time joins that, and moves the time. Once the task has begun, the next submission makes another.
type Collapse struct {
	// Key names what belongs together, expanded like that of [Unique].
	Key string `json:"key,omitempty" redact:"template" short:"text"`
	// Quiet is how long no further submission must come before the task may start. At least 1ms, at most
	// [MaxQuiet].
	Quiet value.Duration `json:"quiet,omitempty"`
	// Most is how long after the first submission it may start at the latest, whatever comes. Default: ten
	// times Quiet. At least Quiet, at most ten times [MaxQuiet].
	Most value.Duration `json:"most,omitempty"`
	// Keep says whose parameters the task has: [KeepLast], the default, or [KeepAll].
	Keep string `json:"keep,omitempty" redact:"word" words:"last,all"`
}

// Values of [Collapse.Keep].
const (
	KeepLast = "last" // those of the last submission
	KeepAll  = "all"  // those of the last, and in [CollectedParam] those of each, the first in front
)

// CollectedParam is the parameter in which a task finds the parameters of all its submissions.
const CollectedParam = "collected"

// Bounds of a [Collapse]. A task that stands for MaxCollapsed submissions, or has collected MaxCollected
// bytes of parameters beside those of the first, may start at once, and the next submission makes another.
const (
	MaxQuiet     = 24 * time.Hour
	MaxCollapsed = 1000
	MaxCollected = 128 << 10
)

// ConflictCollapse is the [Unique.OnConflict] that follows from a collapse. No job file has it.
const ConflictCollapse = "collapse"

// Lock returns what keeps other tasks with a key from being born: [Spec.Unique], or what a collapse says.
// It is not to be modified.
func (s *Spec) Lock() *Unique {
	if c := s.Collapse; c != nil {
		return &Unique{Key: c.Key, OnConflict: ConflictCollapse}
	}
	return &s.Unique
}

func (s *Spec) validateCollapse() error {
	c := s.Collapse
	switch {
	case c == nil:
		return nil
	case c.Key == "":
		return errors.New("collapse.key is missing: what the submissions that become one task have in common")
	case c.Quiet < value.Duration(time.Millisecond) || c.Quiet.Std() > MaxQuiet:
		return fmt.Errorf("collapse.quiet is %v, want 1ms to 24h", c.Quiet)
	case c.Most != 0 && (c.Most < c.Quiet || c.Most.Std() > 10*MaxQuiet):
		return fmt.Errorf("collapse.most is %v, want %v (collapse.quiet) to 240h", c.Most, c.Quiet)
	case c.Keep != "" && c.Keep != KeepLast && c.Keep != KeepAll:
		return fmt.Errorf("collapse.keep is %q, want %s or %s", c.Keep, KeepLast, KeepAll)
	case s.Unique.Key != "":
		return errors.New("collapse and unique are both set; a job has one of them")
	case s.Signal != nil:
		return errors.New("collapse does not go with a signal: a task that waits for one has no time to move")
	case s.Parental():
		return errors.New("collapse is for a job that runs itself, without steps, each or several nodes; submit the other job from it")
	}
	return limit.ValidKey("collapse.key", c.Key)
}

// Due is when a task may start whose first submission came at one time and the last at another.
func (c *Collapse) Due(first, last time.Time) time.Time {
	most := c.Most
	if most == 0 {
		most = 10 * c.Quiet
	}
	quiet, latest := last.Add(c.Quiet.Std()), first.Add(most.Std())
	if latest.Before(quiet) {
		return latest
	}
	return quiet
}

// Full tells whether a task takes no further submission that stands for so many beside the first, with so
// many bytes of parameters.
func (c *Collapse) Full(more, size int) bool {
	return more >= MaxCollapsed-1 || c.Keep == KeepAll && size >= MaxCollected
}

// Collects makes the parameters of a submission those of a task: with [KeepAll] they end with a list of
// themselves, unless they have one.
func (c *Collapse) Collects(params json.RawMessage) (json.RawMessage, error) {
	if c.Keep != KeepAll {
		return params, nil
	}
	all := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(params)) > 0 {
		if err := json.Unmarshal(params, &all); err != nil {
			return nil, fmt.Errorf("params: %w", value.Plainly(err))
		}
	}
	own, err := value.JSON(all)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	switch has, there := all[CollectedParam]; {
	case there && json.Unmarshal(has, &list) != nil:
		return nil, fmt.Errorf("params.%s is not a list, and collapse.keep is %s: it gets one of what each submission gives", CollectedParam, KeepAll)
	case list != nil: // a copy of a task with a collapse
		delete(all, CollectedParam)
		if own, err = value.JSON(all); err != nil {
			return nil, err
		}
		return collected(own, has[1:len(has)-1]), nil
	case len(params) > MaxCollected/4:
		return nil, fmt.Errorf("params have %d bytes, want at most %d where collapse.keep is %s", len(params), MaxCollected/4, KeepAll)
	}
	return collected(own, own), nil
}

// Join returns the parameters of a task after another submission. Both are what Collects returned; of others
// the latter count.
func (c *Collapse) Join(was, other json.RawMessage) json.RawMessage {
	if c.Keep != KeepAll {
		return other
	}
	_, before := uncollected(was)
	own, more := uncollected(other)
	if before == nil || more == nil {
		return other
	}
	return collected(own, slices.Concat(before, []byte(","), more))
}

// collected puts a list behind the members of an object; both are compact.
func collected(own, list []byte) json.RawMessage {
	comma := ","
	if len(own) == 2 {
		comma = ""
	}
	return slices.Concat(own[:len(own)-1], []byte(comma+`"`+CollectedParam+`":[`), list, []byte("]}"))
}

// uncollected is the reverse of collected, without reading the list, which is long; a nil list if there is none.
func uncollected(params json.RawMessage) (own, list []byte) {
	d := json.NewDecoder(bytes.NewReader(params))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, nil
	}
	for {
		end := int(d.InputOffset())
		switch name, err := d.Token(); {
		case err != nil || name == json.Delim('}'):
			return nil, nil
		case name == CollectedParam:
			if from := int(d.InputOffset()) + len(":["); from <= len(params)-len("]}") {
				return slices.Concat(params[:end], []byte("}")), params[from : len(params)-len("]}")]
			}
			return nil, nil
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return nil, nil
		}
	}
}
