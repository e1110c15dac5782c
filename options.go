package millrace

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/value"
)

// Option is a rule for the tasks of a function, if it is given to [Func], or for one submission.
// Each is a field of job files, with the same meaning, default and bounds.
type Option func(*settings)

// settings are what options set: what jobs have, and what only a submission has.
type settings struct {
	job    job.Job
	each   Submission
	stored bool // tasks are made of the stored job
	wrong  []error
}

// with returns the settings with further options.
func (s settings) with(options []Option) settings {
	s.wrong = s.wrong[:len(s.wrong):len(s.wrong)]
	for _, o := range options {
		o(&s)
	}
	return s
}

// key is a key of this function alone.
func (s *settings) key(of string) string { return "/" + s.job.Handler + of }

// Queue names the queue in which tasks wait. Default "default".
func Queue(name string) Option { return func(s *settings) { s.job.Queue = name } }

// Priority is 1 to 10; the larger is the more urgent. Default 5.
func Priority(p int) Option { return func(s *settings) { s.job.Priority = p } }

// Label sets a label, by which tasks can be found. Labels go with the task to its function.
func Label(name, value string) Option {
	return func(s *settings) {
		all := maps.Clone(s.job.Labels)
		if all == nil {
			all = map[string]string{}
		}
		all[name], s.job.Labels = value, all
	}
}

// Title says to people in one line what a task is for.
func Title(text string) Option { return func(s *settings) { s.each.Title = text } }

// Retries is how many failed attempts may be followed by another, 1 s, 2 s, 4 s and so on later, at
// most an hour. Default 0. [Fields] sets other delays.
func Retries(n int) Option { return func(s *settings) { s.job.Retry.Max = n } }

// Timeout is how long one attempt may take: then its context ends. Default: no bound.
func Timeout(d time.Duration) Option {
	return func(s *settings) { s.job.Timeout.Run = value.Duration(d) }
}

// Extendable is [Timeout] for a function that calls [MoreTime], by at most as much again as most.
// Its context has no deadline, as that can move.
func Extendable(d, most time.Duration) Option {
	return func(s *settings) {
		s.job.Timeout.Run, s.job.Timeout.Extend = value.Duration(d), value.Duration(most)
	}
}

// Expire is how long a task may wait for its start, from its due time, before it ends as expired.
// Default: no bound.
func Expire(d time.Duration) Option {
	return func(s *settings) { s.job.Timeout.Pending = value.Duration(d) }
}

// Concurrency is how many tasks of the function may be under way at once, on all workers together.
// It needs a scheduler. Default: no bound.
func Concurrency(n int) Option {
	return func(s *settings) { s.bound("concurrency", n) }
}

// PerWorker is how many tasks of the function may run on one worker at a time. Default: as many as
// it has slots.
func PerWorker(n int) Option {
	return func(s *settings) { s.bound("per_node", n) }
}

// bound sets a bound of this function alone.
func (s *settings) bound(field string, n int) {
	if n < 1 {
		s.wrong = append(s.wrong, fmt.Errorf("%s.max is %d, want 1 or more", field, n))
		return
	}
	Fields(fmt.Sprintf("%s: {max: %d}", field, n))(s)
}

// Unique has a submission return the run that is there already, if an open task of the function has
// the same key. {params.NAME} in the key stands for a parameter.
func Unique(key string) Option {
	return func(s *settings) {
		s.job.Unique = job.Unique{Key: s.key("/" + key), OnConflict: job.ConflictReturn}
	}
}

// In is the time until a task is due. Default: at once.
func In(d time.Duration) Option { return func(s *settings) { s.each.Delay = value.Duration(d) } }

// At is when a task is due. Default: at once.
func At(t time.Time) Option { return func(s *settings) { s.each.At = t } }

// WithID chooses the id of a task: the same submission again, by any process at any time, makes no
// second one. [client.NewID] draws one.
func WithID(id ID) Option { return func(s *settings) { s.each.ID = id } }

// After has a task wait until others have finished; it ends without having run if one of them ends
// otherwise. [Current] has what they returned as Inputs. It needs a scheduler.
func After(ids ...ID) Option {
	return func(s *settings) {
		s.each.Needs = &task.Needs{}
		for _, id := range ids {
			s.each.Needs.Of = append(s.each.Needs.Of, task.Need{Task: id})
		}
	}
}

// FairKey names the owner of a task: workers serve the owners in a queue in turn.
func FairKey(key string) Option { return func(s *settings) { s.each.FairKey = key } }

// AsJob makes a function's tasks of the job as which it is stored: lists show them under the job's
// name, a `breaker` in [Fields] counts its failures, and the server refuses parameters that do not
// fit the type, say of a program of another version. A [Worker] that starts with the function
// stores it, or [App.Apply]. Options of one submission can then set its queue, priority, labels,
// retries, timeouts and key.
func AsJob() Option { return func(s *settings) { s.stored = true } }

// Cron makes the function's schedule, for [App.Apply] and [Function.Schedule]: five fields, or six
// with seconds, or a word such as @daily. Zone is an IANA name; "" is UTC.
func Cron(expression, zone string) Option {
	return func(s *settings) { s.job.Schedule = &job.Schedule{Cron: expression, Timezone: zone} }
}

// Every is [Cron] for ticks at one distance, at least 1 s.
func Every(d time.Duration) Option {
	return func(s *settings) { s.job.Schedule = &job.Schedule{Every: value.Duration(d)} }
}

// Fields sets any other fields but params, as lines of a job file, each of which replaces what
// options before it have set. `millrace job schema` describes all. A key is the function's own, and so is a
// limit without one; functions and jobs share a key that begins with a slash:
//
//	millrace.Fields(`
//	retry: {max: 5, min: 10s, max_delay: 10m, jitter: 0.2}
//	rate: {limit: 10, per: 1m}
//	`)
func Fields(lines string) Option {
	return func(s *settings) {
		text := fmt.Sprintf("%s\nname: %s\nhandler: %q\n", lines, s.job.Name, s.job.Handler)
		is, err := jobfile.Over(s.job, []byte(text))
		if err == nil && !is.Params.IsZero() {
			err = errors.New("params are those of the function's type")
		}
		if err != nil {
			s.wrong = append(s.wrong, err)
			return
		}
		s.job = is
		s.job.OwnKeys(s.key(""))
	}
}
