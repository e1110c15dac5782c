package client

import (
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/rights"
	"millrace/internal/files"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Every name that a user gives follows one rule, whatever it names and wherever it is given. Only a
// handler may have dots and colons in it.
func TestNamesFollowOneRule(t *testing.T) {
	t.Parallel()
	run := func() job.Spec { return job.Spec{Run: &job.Run{Argv: []string{"true"}}} }
	valid := func(change func(*job.Spec)) error {
		s := run()
		change(&s)
		return s.Validate()
	}
	hourly := job.Schedule{Cron: "0 * * * *"}
	doors := map[string]func(name string) error{
		"the rule": func(name string) error { return value.ValidName("queue", name) },
		"node":     func(name string) error { return node.ID(name).Validate() },
		"own route of a node": func(name string) error {
			return placement.ValidQueue("@" + name)
		},
		"queue of a job": func(name string) error {
			j := job.Job{Name: "j", Spec: run(), Queue: name}
			if name == "" { // the default queue
				return errors.New("none")
			}
			return j.Validate()
		},
		"queue of a submission": func(name string) error {
			s := run()
			_, err := birth.Of(birth.Submission{Spec: &s, Queue: name}, nil, 0, time.Unix(1, 0))
			if name == "" { // the default queue
				return errors.New("none")
			}
			return err
		},
		"place.nodes": func(name string) error {
			return valid(func(s *job.Spec) { s.Place = job.Place{Nodes: []string{name}} })
		},
		"place.avoid": func(name string) error {
			return valid(func(s *job.Spec) { s.Place = job.Place{Avoid: []string{name}} })
		},
		"step": func(name string) error {
			s := job.Spec{Steps: []job.Step{{Name: name, Spec: run()}}}
			return s.Validate()
		},
		"job": func(name string) error {
			j := job.Job{Name: name, Spec: run()}
			return j.Validate()
		},
		"parameter": func(name string) error {
			j := job.Job{Name: "j", Spec: run(), Params: param.Params{Declared: []param.Param{{Name: name}}}}
			return j.Validate()
		},
		"schedule": func(name string) error {
			d := schedule.Definition{Name: name, When: hourly, Make: birth.Submission{Job: "j"}}
			return d.Validate()
		},
		"job of a schedule": func(name string) error {
			d := schedule.Definition{Name: "s", When: hourly, Make: birth.Submission{Job: name}}
			return d.Validate()
		},
		"calendar": func(name string) error {
			c := schedule.Calendar{Name: name, Rules: []schedule.Rule{{Closed: "mon-fri 08:00-18:00"}}}
			_, err := c.Hours()
			return err
		},
		"window":     func(name string) error { return value.ValidWindow("window", name) },
		"definition": func(name string) error { return task.Named(task.DefJob, name).Validate() },
		"bundle":     files.ValidBundleName,
		"caller":     rights.ValidCaller,
		"handler": func(name string) error {
			s := job.Spec{Handler: name}
			return s.Validate()
		},
	}
	for what, door := range doors {
		for _, name := range []string{"z", "Z-1_y", "_x", "9", "crawler-7", strings.Repeat("z", 64)} {
			if err := door(name); err != nil {
				t.Errorf("%s: %q is refused: %v", what, name, err)
			}
		}
		for _, name := range []string{"", "-a", strings.Repeat("z", 65), "a b", "a\n", "\na", "a.b", "a:b", ".a", "a/b", "../a", "é", "@a", "~a", "*", ">", "a,b", "a=b", "a\x00"} {
			dotted := what == "handler" && (name == "a.b" || name == "a:b")
			if err := door(name); (err == nil) != dotted {
				t.Errorf("%s: %q: %v", what, name, err)
			}
		}
	}
}
