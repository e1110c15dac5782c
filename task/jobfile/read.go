package jobfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Parse reads the jobs of a file, one from each YAML document that is not empty.
// The name of the file is used in messages only.
//
// It returns either all jobs, valid and with different names, or an [Errors] with all problems of
// the file. Any data is safe to pass. Parse refuses a file above 1 MiB, or one that exceeds it with
// its aliases expanded.
func Parse(name string, data []byte) ([]job.Job, error) {
	return parse(name, data, (*job.Job).Validate, nil)
}

func parse(name string, data []byte, valid func(*job.Job) error, refused func(schedule.Definition) error) ([]job.Job, error) {
	var jobs []job.Job
	err := documents(name, data, "job", "`name` and `run`", func(d *reader, root *node, before []Problem) string {
		d.refused = refused
		job := d.job(root)
		d.validate(&job, valid, slices.Clone(d.problems[len(before):]))
		jobs = append(jobs, job)
		return job.Name
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// ParseWith is [Parse] for jobs that valid accepts, which refuses what [job.Job.Validate] does and more. It also
// refuses schedules of jobs for which refused returns an error: as at that moment they would not be stored, say.
func ParseWith(valid func(*job.Job) error, refused func(schedule.Definition) error) func(name string, data []byte) ([]job.Job, error) {
	return func(name string, data []byte) ([]job.Job, error) { return parse(name, data, valid, refused) }
}

// ParseOne is [Parse] for a file that must hold one job and no more. With a name, the job must have
// that one.
func ParseOne(name string, data []byte) (job.Job, error) {
	return one("", name, data, "job", "`name` and `run`", func(d *reader, root *node, before []Problem) (job.Job, string) {
		is := d.job(root)
		d.validate(&is, (*job.Job).Validate, slices.Clone(d.problems[len(before):]))
		return is, is.Name
	})
}

// Over is [ParseOne] for fields that replace those of a job, the name included.
func Over(base job.Job, data []byte) (job.Job, error) {
	return one("", base.Name, data, "job", "`name`", func(d *reader, root *node, before []Problem) (job.Job, string) {
		is := base
		for _, given := range root.fields {
			if f, known := fieldNamed(reflect.TypeFor[job.Job](), given.name); known {
				reflect.ValueOf(&is).Elem().FieldByIndex(f.Index).SetZero()
			}
		}
		d.root(root, &is)
		d.validate(&is, (*job.Job).Validate, slices.Clone(d.problems[len(before):]))
		return is, is.Name
	})
}

// one reads a file that must hold one definition and no more; with a name, the definition must have
// that one. Read is as for documents, and also returns the definition.
func one[T any](file, name string, data []byte, what, needs string, read func(d *reader, root *node, before []Problem) (T, string)) (T, error) {
	var first, none T
	docs := 0
	err := documents(file, data, what, needs, func(d *reader, root *node, before []Problem) string {
		is, called := read(d, root, before)
		docs++
		switch {
		case docs > 1:
			d.add(root.pos, "", "another %s begins here: want one %s", what, what)
			return called
		case name != "" && called != "" && called != name:
			d.add(d.where["name"], "name", "name is that of another %s: to rename %s, store it as a new %s and remove the old one", what, name, what)
		}
		first = is
		return called
	})
	if err != nil {
		return none, err
	}
	return first, nil
}

// documents reads each non-empty document of a file. Read gets the earlier problems and returns the
// name of its definition.
func documents(name string, data []byte, what, needs string, read func(d *reader, root *node, before []Problem) string) error {
	r := &report{file: name}
	s, ok := clean(data, r)
	if !ok {
		return r.err()
	}
	lines := map[string]int{}
	empty := true
	for _, doc := range split(s) {
		before := r.problems
		root := compose(doc, r)
		if root == nil {
			continue
		}
		empty = false
		d := &reader{report: r, what: what, where: map[string]position{"": root.pos}}
		called := read(d, root, before)
		if called == "" {
			continue
		}
		if line, double := lines[called]; double {
			r.add(d.where["name"], "name", "%s name %q is used twice in this file, first on line %d", what, called, line)
		} else {
			lines[called] = d.where["name"].line
		}
	}
	if empty {
		r.add(position{1, 1}, "", "the file is empty: a %s needs at least %s", what, needs)
	}
	return r.err()
}

// reader turns the tree of one document into a job or a calendar. It continues after a problem, to
// find all of them.
type reader struct {
	*report
	what string // the kind of definition
	// where holds the positions of the fields that were set.
	where map[string]position
	// refused says why a schedule of a job is refused, beside its rules; nil for no more.
	refused func(schedule.Definition) error
}

// entry is a node with its place in the file. Its position is that of the field's name: an editor
// should jump there.
type entry struct {
	*node
	path string
	pos  position
}

func (r *reader) refuse(v entry, format string, args ...any) {
	r.add(v.pos, v.path, "%s%s", prefix(v.path), fmt.Sprintf(format, args...))
}

// want refuses a value of the wrong kind. A broken one has been reported already.
func (r *reader) want(v entry, what string) {
	if v.kind != broken {
		r.refuse(v, "want %s, got %s", what, describe(v.node))
	}
}

// root reads the fields at the left margin into a struct.
func (r *reader) root(n *node, into any) {
	r.object(entry{n, "", n.pos}, reflect.ValueOf(into).Elem(), fmt.Sprintf("a %[1]s's fields (several %[1]ss are separated by lines of ---)", r.what))
	if _, ok := n.field("name"); !ok && n.kind == mapping {
		r.add(n.pos, "name", "name is missing: a %s needs one", r.what)
	}
}

func (r *reader) job(root *node) (j job.Job) {
	r.root(root, &j)
	return j
}

// validate applies the rules that concern more than one value. It stays silent about unreadable
// fields and faults that may follow from them.
func (r *reader) validate(j *job.Job, valid func(*job.Job) error, unread []Problem) {
	r.say(valid(j), unread)
	list := "timetable"
	if _, short := r.where["schedule"]; short {
		list = "schedule"
		if _, both := r.where["timetable"]; both {
			r.add(r.where["timetable"], "timetable", "schedule and timetable are both set: put all of them into one list")
			return
		}
	}
	r.say(schedule.ValidateOfJob(j, list, r.refused), unread)
}

// say adds the faults of rules, except those that may follow from unreadable fields.
func (r *reader) say(err error, unread []Problem) {
	if err == nil {
		return
	}
	for _, one := range value.FaultsOf(err) {
		path := r.subject(one.Error())
		if !slices.ContainsFunc(unread, func(p Problem) bool { return hangs(path, p.Path) }) {
			r.add(r.where[path], path, "%s", one)
		}
	}
}

// hangs tells whether a rule's fault about a field may follow from another field that could not be
// read: from any field of the same top-level object, except for a schedule, whose rules concern one
// field each. A rule about the job itself may follow from any field.
func hangs(path, unread string) bool {
	if path == "" || unread == "" || strings.HasPrefix(path+".", unread+".") || strings.HasPrefix(unread+".", path+".") {
		return true
	}
	object := top(path)
	return object == top(unread) && object != "schedule" && object != "timetable"
}

// top is the field at the left margin to which a path belongs.
func top(path string) string {
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end]
	}
	return path
}

// subject finds the field of a message of [job.Job.Validate], which begins with it.
func (r *reader) subject(message string) string {
	end := strings.IndexFunc(message, func(c rune) bool {
		return c != '.' && c != '_' && c != '[' && c != ']' && (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	path := message[:max(end, 0)]
	for path != "" {
		if _, ok := r.where[path]; ok {
			return path
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return ""
}
