package jobfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
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

// ParseWith is [Parse], which also refuses schedules of jobs for which refused returns an error: as
// at that moment they would not be stored, say.
func ParseWith(refused func(schedule.Definition) error) func(name string, data []byte) ([]job.Job, error) {
	return func(name string, data []byte) ([]job.Job, error) {
		return parse(name, data, (*job.Job).Validate, refused)
	}
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

// setters say how fields of an object are read, by name.
type setters map[string]func(entry)

func (r *reader) object(v entry, what string, read setters) {
	if v.kind != mapping {
		r.want(v, what)
		return
	}
	for _, f := range v.fields {
		at := join(v.path, f.name)
		set, known := read[f.name]
		if !known {
			r.add(f.pos, at, "%s", r.unknown(v.path, f.name, read))
			continue
		}
		r.where[at] = f.pos
		set(entry{f.node, at, f.pos})
	}
}

// root reads the fields at the left margin.
func (r *reader) root(n *node, read setters) {
	r.object(entry{n, "", n.pos}, fmt.Sprintf("a %[1]s's fields (several %[1]ss are separated by lines of ---)", r.what), read)
	if _, ok := n.field("name"); !ok && n.kind == mapping {
		r.add(n.pos, "name", "name is missing: a %s needs one", r.what)
	}
}

func (r *reader) job(root *node) job.Job {
	var j job.Job
	special := r.spec(&j.Spec)
	maps.Copy(special, setters{
		"priority":  into(&j.Priority, r.priority),
		"fair":      into(&j.Fair, r.line),
		"timetable": into(&j.Timetable, r.timetable),
		"schedule": func(v entry) {
			if v.kind == list {
				j.Timetable = r.timetable(v)
			} else {
				j.Schedule = r.schedule(v)
			}
		},
	})
	r.root(root, r.fields(&j, special))
	return j
}

// priority refuses a value out of bounds here, because the rules read 0 as unset.
func (r *reader) priority(v entry) int {
	n, ok := r.exact(v, "a whole number")
	if !ok {
		return 0
	}
	p, whole := n.Int()
	if !whole || p < placement.MinPriority || p > placement.MaxPriority {
		r.refuse(v, "want a whole number from %d to %d, the larger the more urgent", placement.MinPriority, placement.MaxPriority)
		return 0
	}
	return p
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

func (r *reader) run(v entry) *job.Run {
	var run job.Run
	switch v.kind {
	case text:
		run.Shell = r.line(v)
	case list:
		run.Argv = r.list(v, r.scalar)
	default:
		r.object(v, "a shell line, a list of arguments or a mapping", r.fields(&run, setters{
			"argv":      func(v entry) { run.Argv = r.list(v, r.scalar) },
			"shell":     into(&run.Shell, r.line),
			"user":      into(&run.User, r.scalar),
			"inherit":   func(v entry) { run.Inherit = r.list(v, r.text) },
			"env_files": func(v entry) { run.EnvFiles = r.list(v, r.text) },
			"stdin":     r.words(&run.Stdin, []string{job.StdinNone, job.StdinOpen}),
			"messages":  r.words(&run.Messages, job.MessageRules),
		}))
	}
	return &run
}

func (r *reader) retry(v entry) (t job.Retry) {
	r.object(v, "a mapping such as {max: 3}", r.fields(&t, setters{
		"backoff": r.words(&t.Backoff, backoffs),
		"on":      func(v entry) { t.On = r.list(v, r.failure) },
		"not_on":  func(v entry) { t.NotOn = r.list(v, r.failure) },
	}))
	return t
}

func (r *reader) unique(v entry) (u job.Unique) {
	r.object(v, "a mapping such as {key: nightly}", r.fields(&u, setters{
		"while":       func(v entry) { u.While = r.list(v, func(v entry) string { return r.oneOf(v, states) }) },
		"on_conflict": r.words(&u.OnConflict, job.Conflicts),
	}))
	return u
}

// states are the names of the states of tasks.
var states = func() (names []string) {
	for _, s := range task.States() {
		names = append(names, s.String())
	}
	return names
}()

func (r *reader) signal(v entry) *job.Signal {
	var s job.Signal
	if v.kind == text {
		s.Name = r.name(v, "signal")
		return &s
	}
	r.object(v, "a name, or a mapping such as {name: approval, timeout: 1h}", r.fields(&s, setters{
		"on_timeout": r.words(&s.OnTimeout, job.SignalPolicies),
	}))
	return &s
}

func (r *reader) place(v entry) (p job.Place) {
	r.object(v, "a mapping such as {nodes: [node-1]}", r.fields(&p, setters{
		"mode":    r.words(&p.Mode, job.PlaceModes),
		"nodes":   func(v entry) { p.Nodes = r.list(v, func(v entry) string { return r.name(v, "node") }) },
		"avoid":   func(v entry) { p.Avoid = r.list(v, func(v entry) string { return r.name(v, "node") }) },
		"count":   into(&p.Count, r.atLeastOne),
		"spread":  into(&p.Spread, r.line),
		"late":    r.words(&p.Late, job.Lates),
		"sticky":  into(&p.Sticky, r.line),
		"no_node": r.words(&p.NoNode, job.NoNodes),
	}))
	return p
}

func (r *reader) schedule(v entry) *job.Schedule {
	s := r.scheduleOf(v, nil)
	return &s.Schedule
}

// timetable reads several schedules, each of which may have a name.
func (r *reader) timetable(v entry) (all []job.NamedSchedule) {
	if v.kind != list {
		r.want(v, "a list of schedules such as [\"0 3 * * *\", {name: saturdays, cron: \"0 15 * * 6\"}]")
		return nil
	}
	r.oneOrMore(v, func(at entry) {
		var name string
		s := r.scheduleOf(at, r.named(&name, "schedule"))
		s.Name = name
		all = append(all, s)
	})
	return all
}

// scheduleOf reads a schedule. Its name is read by named, nil if it has none.
func (r *reader) scheduleOf(v entry, named func(entry)) (s job.NamedSchedule) {
	if v.kind == text { // the form that most schedules need
		s.Cron = r.line(v)
		return s
	}
	fields := r.fields(&s.Schedule, setters{
		"cron":     into(&s.Cron, r.line),
		"at":       into(&s.At, r.line),
		"timezone": into(&s.Timezone, r.line),
		"start":    into(&s.Start, r.line),
		"end":      into(&s.End, r.line),
		"catchup":  r.words(&s.CatchUp, job.CatchUps),
		"overlap":  r.words(&s.Overlap, job.Overlaps),
		"dst":      r.words(&s.DST, job.DSTs),
	})
	if named != nil {
		fields["name"] = named
	}
	r.object(v, "a cron expression or a mapping such as {cron: \"30 4 * * *\"}", fields)
	return s
}

var backoffs = []string{job.BackoffExponential, job.BackoffLinear, job.BackoffFixed}

func (r *reader) text(v entry) string {
	switch v.kind {
	case text:
		return v.text
	case number, boolean:
		r.refuse(v, "want text, got %s: put it in quotes", describe(v.node))
	default:
		r.want(v, "text")
	}
	return ""
}

// line reads text that must not be empty: an empty field is a slip.
func (r *reader) line(v entry) string {
	s := r.text(v)
	if v.kind == text && s == "" {
		r.refuse(v, "it is empty: write a command or leave the field out")
	}
	return s
}

func (r *reader) name(v entry, what string) string {
	s := r.text(v)
	if v.kind != text {
		return ""
	}
	if err := value.ValidName(what, s); err != nil {
		r.add(v.pos, v.path, "%s", err)
		return ""
	}
	return s
}

func (r *reader) oneOf(v entry, words []string) string {
	s := r.text(v)
	if v.kind != text || slices.Contains(words, s) {
		return s
	}
	hint := ""
	if meant := value.Word(s, words); meant != "" {
		hint = fmt.Sprintf(": did you mean %q?", meant)
	}
	last := len(words) - 1
	r.refuse(v, "want %s or %s, got %s%s", strings.Join(words[:last], ", "), words[last], describe(v.node), hint)
	return s
}

// scalar reads a value that ends as text for a process or a label, where quotes around a number
// would be a nuisance: 1.10 stays "1.10".
func (r *reader) scalar(v entry) string {
	switch v.kind {
	case text, number, boolean:
		return v.text
	case null:
		r.refuse(v, `want text, got nothing: write "" for empty text`)
	default:
		r.want(v, "text")
	}
	return ""
}

func (r *reader) list(v entry, item func(entry) string) []string {
	if v.kind != list {
		r.want(v, "a list")
		return nil
	}
	if len(v.items) == 0 {
		r.refuse(v, "the list is empty: fill it or leave the field out")
	}
	all := make([]string, len(v.items))
	for i, n := range v.items {
		all[i] = item(entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos})
	}
	return all
}

func (r *reader) lineList(v entry) []string { return r.list(v, r.line) }

func (r *reader) texts(v entry) map[string]string {
	if v.kind != mapping {
		r.want(v, "a mapping from names to text")
		return nil
	}
	all := make(map[string]string, len(v.fields))
	for _, f := range v.fields {
		all[f.name] = r.scalar(entry{f.node, join(v.path, f.name), f.pos})
	}
	return all
}

func (r *reader) duration(v entry) value.Duration {
	var d value.Duration
	switch v.kind {
	case text:
		if err := d.UnmarshalText([]byte(v.text)); err != nil {
			r.refuse(v, "%v", err)
		}
	case number:
		if n, ok := value.ParseNumber(v.text); ok && n.Compare("0") == 0 {
			break // as a flag takes it
		}
		s := excerpt(v.text)
		r.refuse(v, "the duration %s has no unit: write %ss for seconds, %sm for minutes or %sh for hours", s, s, s, s)
	default:
		r.want(v, "a duration such as 90s or 1h30m")
	}
	return d
}

// whole reads a whole number, which may be written 3.0 or 3e0, as in JSON.
func (r *reader) whole(v entry) int {
	n, ok := r.exact(v, "a whole number")
	switch i, fits := n.Int(); {
	case !ok:
	case !n.Whole():
		r.want(v, "a whole number")
	case !fits || max(i, -i) > math.MaxInt32:
		r.want(v, fmt.Sprintf("a whole number up to %d", math.MaxInt32))
	default:
		return i
	}
	return 0
}

func (r *reader) number(v entry) float64 {
	f, _ := r.float(v, "a number")
	return f
}

func (r *reader) float(v entry, what string) (float64, bool) {
	n, ok := r.exact(v, what)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		r.want(v, what)
		return 0, false
	}
	return f, true
}

// exact reads a number with all its digits.
func (r *reader) exact(v entry, what string) (value.Number, bool) {
	if v.kind != number {
		r.want(v, what)
		return "", false
	}
	s, err := jsonNumber(v.text)
	if err != nil {
		r.refuse(v, "%v", err)
		return "", false
	}
	return value.Number(s), true
}

// appendJSON writes a value as JSON, with the digits of numbers as in the file.
func (r *reader) appendJSON(b []byte, v entry) []byte {
	switch v.kind {
	case boolean:
		return append(b, strings.ToLower(v.text)...)
	case number:
		s, err := jsonNumber(v.text)
		if err != nil {
			r.refuse(v, "%v", err)
		}
		return append(b, s...)
	case text:
		return appendJSONText(b, v.text)
	case list:
		b = append(b, '[')
		for i, n := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.appendJSON(b, entry{n, fmt.Sprintf("%s[%d]", v.path, i), n.pos})
		}
		return append(b, ']')
	case mapping:
		b = append(b, '{')
		for i, f := range v.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONText(b, f.name), ':')
			b = r.appendJSON(b, entry{f.node, join(v.path, f.name), f.pos})
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func appendJSONText(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always has a JSON form
	return append(b, quoted...)
}

// jsonNumber returns the JSON form of a YAML number.
func jsonNumber(s string) (string, error) {
	if json.Valid([]byte(s)) {
		return s, nil
	}
	digits := strings.TrimLeft(s, "+-")
	switch {
	case strings.ContainsAny(digits, "nN"): // .inf, .nan
		return "", fmt.Errorf("JSON has no number %s: put it in quotes for text", s)
	case strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0o"):
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			return "", fmt.Errorf("the number %s is too large: put it in quotes for text", excerpt(s))
		}
		return strconv.FormatUint(n, 10), nil
	case len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9':
		// Some readers of YAML read it as octal, others as decimal, and mostly neither is intended.
		return "", fmt.Errorf("the number %s begins with 0: put it in quotes for text, or drop the 0", excerpt(s))
	}
	// The remaining forms are +1, .5 and 1., which JSON writes 1, 0.5 and 1.
	whole, rest := digits, ""
	if i := strings.IndexAny(digits, ".eE"); i >= 0 {
		whole, rest = digits[:i], digits[i:]
	}
	if whole == "" {
		whole = "0"
	}
	if rest == "." || strings.HasPrefix(rest, ".e") || strings.HasPrefix(rest, ".E") {
		rest = rest[1:]
	}
	if s[0] == '-' {
		whole = "-" + whole
	}
	if n := whole + rest; json.Valid([]byte(n)) {
		return n, nil
	}
	return "", errors.New("the number " + excerpt(s) + " has no JSON form")
}
