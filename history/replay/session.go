package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/value"
)

// Session steps through a span for one user. It is for one goroutine.
type Session struct {
	span   *Span
	config Config
	at     point
	stop   *Stop
	hit    *hit // the hit at which a breakpoint stopped it
	focus  *aim
	breaks []*Breakpoint
	next   int // the number of the next breakpoint
	marks  []Mark
	ids    map[string]int32 // places of facts by id, filled on first use
	crowd  crowd
}

// Config sets how a span is judged.
type Config struct {
	// Rules are the settings for judging duties.
	Rules view.Rules
	// Margin is how long after a deadline its fact may come (verify.Config).
	Margin time.Duration
	// Focus is the initial focus.
	Focus Focus
	// Marks are the earlier marks. Partial says why the span cannot be checked against promises; ""
	// if it can.
	Marks   []Mark
	Partial string
	// Time parses a typed time, such as 12:00, with the day of near.
	Time func(text string, near time.Time) (time.Time, error)
	// Limited says for what a task waits that only its limits hold, naming Holders of each; nil for no
	// more than that they hold it.
	Limited LimitWords
	Holders int
}

// Mark is a named place.
type Mark struct {
	Name string    `json:"name"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Note string    `json:"note,omitempty"`

	at point
}

// Line is a fact in a list of them.
type Line struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
	Type   string    `json:"type"`
	About  string    `json:"about"`
	// Why says how it relates to the point.
	Why string `json:"why,omitempty"`
	// Here says that the point is at it, and Focus that it belongs to the focus.
	Here  bool `json:"-"`
	Focus bool `json:"-"`

	Record events.Record `json:"-"`
}

// Answer is the result of a command; only the parts that the command has are set.
type Answer struct {
	*Frame
	// Set is a new breakpoint, and Breaks are all of them.
	Set    *Breakpoint   `json:"set,omitempty"`
	Breaks []*Breakpoint `json:"breaks,omitempty"`
	// Value is the value of an expression at the point.
	Value json.RawMessage `json:"value,omitempty"`
	// Lines are facts, such as causes.
	Lines []Line `json:"lines,omitempty"`
	Marks []Mark `json:"marks,omitempty"`
	// Says describes the result in words.
	Says string `json:"says,omitempty"`
	// Help lists the commands.
	Help []Command `json:"help,omitempty"`
	// None says that nothing was found; the session has not moved.
	None bool `json:"none,omitempty"`
	// Quit says that the session is over.
	Quit bool `json:"-"`
}

// New begins a session before the first fact of a span.
func New(s *Span, c Config) (*Session, error) {
	focus, err := s.look(c.Focus)
	if err != nil {
		return nil, err
	}
	x := &Session{span: s, config: c, focus: focus, at: point{s.begin - 1, s.time(s.begin - 1)}, next: 1}
	for _, m := range c.Marks {
		m.at = point{max(s.after(m.Seq)-1, s.begin-1), m.Time}
		x.marks = append(x.marks, m)
	}
	return x, nil
}

// Seq is the fact at, or before, the session's point; 0 before the first one.
func (x *Session) Seq() uint64 {
	if x.at.pos < x.span.begin {
		return 0
	}
	return x.span.facts[x.at.pos].seq
}

// Frame is the information at the session's point.
func (x *Session) Frame(ctx context.Context) (*Frame, error) {
	f, err := x.span.frame(ctx, x.at, x.focus, x.config.Rules)
	if err != nil {
		return nil, err
	}
	if x.focus.Kind == limitKind && x.at.pos >= x.span.begin {
		if f.Limit, err = x.limited(ctx, x.focus.ID, x.at); err != nil {
			return nil, err
		}
	}
	if f.Stop = x.stop; x.hit == nil || x.hit.about.Kind == 0 || x.at.pos < x.span.begin {
		return f, x.held(ctx, f.Owed, view.RefOf(&f.Record), x.at.pos-1, x.at)
	}
	before := x.at.pos - 1
	if x.at.at.After(x.span.time(x.at.pos)) {
		// Between two facts nothing happens, except that a deadline passes.
		f.Changed, f.Queues, f.Nodes, f.Decision = nil, nil, nil, nil
		before = x.at.pos
	}
	if f.Owed, err = x.span.owed(ctx, x.hit.about, before, x.at, x.config.Rules); err != nil {
		return nil, err
	}
	return f, x.held(ctx, f.Owed, x.hit.about, before, x.at)
}

// shown is the answer of a command, whether or not it has moved.
func (x *Session) shown(ctx context.Context, moved bool, why string) (*Answer, error) {
	f, err := x.Frame(ctx)
	if err != nil {
		return nil, err
	}
	a := &Answer{Frame: f}
	if !moved {
		a.None, a.Says = true, why
	}
	return a, nil
}

// move goes to a place.
func (x *Session) move(pos int) {
	x.at, x.stop, x.hit = point{pos, x.span.time(pos)}, nil, nil
}

// step goes some facts forward or back, at most to the end of the span.
func (x *Session) step(ctx context.Context, n int) (*Answer, error) {
	s := x.span
	to := x.at.pos + n
	if n < 0 && x.at.at.After(s.time(x.at.pos)) {
		to++ // from behind a fact, the step back goes to it
	}
	switch {
	case to >= len(s.facts):
		return x.shown(ctx, false, "the span ends here")
	case to < s.begin-1 || to < s.begin && x.at.pos < s.begin:
		return x.shown(ctx, false, "the span begins here")
	}
	x.move(to)
	return x.shown(ctx, true, "")
}

// along goes to the next fact of the focus that satisfies so, or back to the last one before.
func (x *Session) along(ctx context.Context, n int, so func(pos int) (bool, error), none string) (*Answer, error) {
	s := x.span
	i := x.focus.upTo(x.at.pos, s.begin) - 1 // the latest at or before the point
	if at, ok := x.focus.place(i, s); n < 0 && (!ok || at < x.at.pos || x.at.at.After(s.time(x.at.pos))) {
		i++ // it counts itself as the one before
	}
	for {
		i += n
		pos, ok := x.focus.place(i, s)
		if !ok {
			return x.shown(ctx, false, none)
		}
		is, err := so(pos)
		if err != nil {
			return nil, err
		}
		if is {
			x.move(pos)
			return x.shown(ctx, true, "")
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// nth goes n facts of the focus forward or back.
func (x *Session) nth(ctx context.Context, n int) (*Answer, error) {
	way, left := 1, n
	if n < 0 {
		way, left = -1, -n
	}
	return x.along(ctx, way, func(int) (bool, error) { left--; return left <= 0, nil }, "no more events about "+x.focus.words())
}

func (f *Focus) words() string {
	if f.Kind == "" {
		return "anything in the span"
	}
	return f.String() + " in the span"
}

// errNoTask: the command needs a task as focus.
var errNoTask = errors.New("this follows one task: choose it with `o task ID`")

// errNoThing: the command needs a single subject as focus.
var errNoThing = errors.New("this follows one thing: choose it with `o task ID`, `o node NAME`, `o queue NAME` or `o schedule NAME`")

// finish goes to the end of the present state of the task in focus, or back to its beginning.
func (x *Session) finish(ctx context.Context, n int) (*Answer, error) {
	if x.focus.Kind != "task" {
		return nil, errNoTask
	}
	none := "its state does not change any more in the span"
	if n < 0 {
		none = "its state does not change before, in the span"
	}
	return x.along(ctx, n, func(pos int) (bool, error) {
		f := &x.span.facts[pos]
		return f.was.state != f.is.state || f.was.there != f.is.there, nil
	}, none)
}

// field goes to the next fact of the focus that changes a field, or back to the one that wrote its
// present value.
func (x *Session) field(ctx context.Context, n int, path string) (*Answer, error) {
	ref := x.focus.ref()
	if ref.Kind == 0 {
		return nil, errNoThing
	}
	if path == "" {
		return nil, errors.New("name the field, as `w state`")
	}
	if n < 0 && x.at.pos >= x.span.begin {
		if writes, err := x.writes(ref, x.at.pos, path); err != nil || writes {
			if err != nil {
				return nil, err
			}
			a, err := x.shown(ctx, true, "")
			if err == nil {
				a.Says = "this event wrote it"
			}
			return a, err
		}
	}
	return x.along(ctx, n, func(pos int) (bool, error) { return x.writes(ref, pos, path) }, "nothing changes "+path+" there")
}

// writes tells whether the fact at a place changes a field of a subject, or one below it.
func (x *Session) writes(ref view.Ref, pos int, path string) (bool, error) {
	c := x.span.chains[ref]
	if c == nil {
		return false, nil
	}
	i := c.upTo(pos)
	if i == 0 || int(c.at[i-1]) != pos {
		return false, nil
	}
	changes, err := changed(x.span.fold(ref, pos-1), x.span.fold(ref, pos), i > 1)
	return slices.ContainsFunc(changes, func(c view.Change) bool {
		return c.Field == path || strings.HasPrefix(c.Field, path+".")
	}), err
}

// run goes to the next place of a breakpoint, or back to the last one before.
func (x *Session) run(ctx context.Context, n int) (*Answer, error) {
	if len(x.breaks) == 0 {
		return nil, errors.New("there is no breakpoint to run to: set one, as `b state error`; `n` goes to the next event of the focus")
	}
	var nearest *hit
	for _, b := range x.breaks {
		if i := b.beyond(x.at, n); i >= 0 && i < len(b.hits) && (nearest == nil || b.hits[i].compare(nearest.point)*n < 0) {
			nearest = &b.hits[i]
		}
	}
	if nearest == nil {
		where := "no breakpoint is hit before the span ends"
		if n < 0 {
			where = "no breakpoint is hit before the span begins, going back"
		}
		return x.shown(ctx, false, where)
	}
	x.at, x.hit = nearest.point, nearest
	stops := x.stopsAt()
	x.stop = &stops[0]
	x.stop.Others = stops[1:]
	return x.shown(ctx, true, "")
}

// beyond is the index of the first hit behind a point, or of the last one before it; out of range
// if there is none.
func (b *Breakpoint) beyond(p point, n int) int {
	if n < 0 {
		return sort.Search(len(b.hits), func(i int) bool { return b.hits[i].compare(p) >= 0 }) - 1
	}
	return sort.Search(len(b.hits), func(i int) bool { return b.hits[i].compare(p) > 0 })
}

// stopsAt lists all that stop at the point, beginning with the session's present hit.
func (x *Session) stopsAt() (stops []Stop) {
	for _, b := range x.breaks {
		first := b.beyond(x.at, -1) + 1
		for i := first; i < len(b.hits) && b.hits[i].compare(x.at) == 0; i++ {
			h := &b.hits[i]
			stop := Stop{Break: b.Number, Why: h.why, Seqs: h.seqs, Behind: i, Ahead: len(b.hits) - i - 1}
			if h.about.Kind != 0 {
				stop.About = h.about.String()
			}
			if h == x.hit {
				stops = slices.Insert(stops, 0, stop)
				continue
			}
			stops = append(stops, stop)
		}
	}
	return stops
}

// goTo goes to a sequence, a time, a distance in time from the point, an end of the span, or a
// mark.
func (x *Session) goTo(ctx context.Context, text string) (*Answer, error) {
	s := x.span
	pos := 0
	seq, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 10, 64)
	switch mark := x.mark(text); {
	case text == "":
		return nil, errors.New("say where to: a sequence, a time, -10m, start, end, or a mark")
	case mark != nil:
		x.at, x.stop, x.hit = mark.at, nil, nil
		return x.shown(ctx, true, "")
	case text == "start":
		pos = s.begin - 1
	case text == "end":
		pos = s.last()
	case err == nil:
		if pos = s.after(seq) - 1; pos < s.begin || s.facts[pos].seq != seq {
			return nil, fmt.Errorf("the span has no sequence %d: it goes from %d to %d", seq, s.From(), s.To())
		}
	default:
		at, err := x.time(text)
		if err != nil {
			return nil, err
		}
		pos = s.at(at)
	}
	if pos < s.begin-1 || pos >= len(s.facts) {
		return nil, fmt.Errorf("%s is before the span, which begins at #%d", text, s.From())
	}
	x.move(pos)
	return x.shown(ctx, true, "")
}

// time parses a time, relative to the point's if it is a distance.
func (x *Session) time(text string) (time.Time, error) {
	here := x.at.at
	if here.IsZero() && x.span.Len() > 0 {
		here = x.span.time(x.span.begin)
	}
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		d, err := value.ParseDuration(text[1:])
		if text[0] == '-' {
			d = -d
		}
		if err != nil {
			return here, fmt.Errorf("%q is no duration: want one as -10m or +30s", text)
		}
		return here.Add(d), nil
	}
	return x.config.Time(text, here)
}

// set sets a breakpoint, and finds its places.
func (x *Session) set(ctx context.Context, text string) (*Answer, error) {
	if text == "" {
		return &Answer{Breaks: x.breaks, Says: fmt.Sprintf("%d breakpoints", len(x.breaks))}, nil
	}
	stops, err := parseBreak(text)
	if err != nil {
		return nil, err
	}
	if stops.kind == kindBroken && x.config.Partial != "" {
		return nil, fmt.Errorf("whether promises were kept cannot be said here: %s", x.config.Partial)
	}
	b, err := x.span.find(ctx, stops, x.config.Rules, x.config.Margin)
	if err != nil {
		return nil, err
	}
	b.Number, b.Text = x.next, text
	x.next++
	x.breaks = append(x.breaks, b)
	return &Answer{Set: b}, nil
}

// remove removes a breakpoint, or all of them.
func (x *Session) remove(text string) (*Answer, error) {
	before := len(x.breaks)
	x.breaks = slices.DeleteFunc(x.breaks, func(b *Breakpoint) bool { return text == "all" || text == strconv.Itoa(b.Number) })
	if len(x.breaks) == before {
		return nil, errNoBreak
	}
	return &Answer{Says: fmt.Sprintf("%d removed", before-len(x.breaks))}, nil
}

// look sets the focus.
func (x *Session) look(text string) (*Answer, error) {
	kind, id, _ := strings.Cut(text, " ")
	f := Focus{kind, strings.TrimSpace(id)}
	switch {
	case text == "":
		return &Answer{Says: "looking at " + x.focus.words()}, nil
	case text == "all":
		f = Focus{}
	case f.ID == "" || !slices.Contains(FocusKinds, kind):
		return nil, fmt.Errorf("want `o task ID`, `o node NAME`, `o queue NAME`, `o schedule NAME`, `o limit NAME`, or `o all`")
	}
	aim, err := x.span.look(f)
	if err != nil {
		return nil, err
	}
	x.focus = aim
	return &Answer{Says: fmt.Sprintf("looking at %s: %d events", aim.words(), aim.len(x.span))}, nil
}

// print shows the value of an expression at the point.
func (x *Session) print(text string) (*Answer, error) {
	if text == "" {
		return nil, errors.New("say what to print, as `p task.state`")
	}
	e, err := compile(text, false)
	if err != nil {
		return nil, err
	}
	if x.at.pos < x.span.begin {
		return nil, errors.New("the point is before the first event of the span: `s` goes to that")
	}
	r := x.span.record(x.at.pos)
	ref := view.RefOf(&r)
	if focus := x.focus.ref(); focus.Kind != 0 {
		ref = focus
	}
	s := e.see(&r, x.span.fold(ref, x.at.pos-1), x.span.fold(ref, x.at.pos))
	s.Now = func() time.Time { return x.at.at }
	is, err := e.eval(s)
	if err != nil {
		return nil, err
	}
	said, err := value.JSON(is)
	return &Answer{Value: said}, err
}

// bookmark marks the point.
func (x *Session) bookmark(text string) (*Answer, error) {
	name, note, _ := strings.Cut(text, " ")
	if name == "" {
		name = strconv.Itoa(len(x.marks) + 1)
	}
	m := Mark{Name: name, Time: x.at.at, Note: strings.Trim(strings.TrimSpace(note), `"`), at: x.at}
	if x.at.pos >= 0 {
		m.Seq = x.span.facts[x.at.pos].seq
	}
	if there := x.mark(name); there != nil {
		*there = m
	} else {
		x.marks = append(x.marks, m)
	}
	return &Answer{Marks: []Mark{m}}, nil
}

func (x *Session) mark(name string) *Mark {
	i := slices.IndexFunc(x.marks, func(m Mark) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &x.marks[i]
}

// jump goes to a mark, or lists them.
func (x *Session) jump(ctx context.Context, name string) (*Answer, error) {
	if name == "" {
		return &Answer{Marks: x.marks, Says: fmt.Sprintf("%d marks", len(x.marks))}, nil
	}
	if x.mark(name) == nil {
		var names []string
		for _, m := range x.marks {
			names = append(names, m.Name)
		}
		if meant := value.Word(name, names); meant != "" {
			return nil, fmt.Errorf("there is no mark %q: did you mean %s?", name, meant)
		}
		return nil, fmt.Errorf("there is no mark %q; `m NAME` makes one", name)
	}
	return x.goTo(ctx, name)
}

// most is how many causes or consequences are listed.
const most = 50

// causes lists the facts that led to the one at the point: the cause that a fact names, the tick
// that made a task and the fire of that, else the fact before it on its chain.
func (x *Session) causes() (*Answer, error) {
	if x.at.pos < x.span.begin {
		return nil, errors.New("the point is before the first event of the span: `s` goes to that")
	}
	var lines []Line
	why := "here"
	for pos := x.at.pos; pos >= 0 && len(lines) < most; {
		l := x.line(pos, why)
		lines = append(lines, l)
		pos, why = x.cause(pos, &l.Record)
	}
	return &Answer{Lines: lines}, nil
}

// cause is the place of the fact that led to another one; -1 for none.
func (x *Session) cause(pos int, r *events.Record) (int, string) {
	if r.Fact.Cause != "" {
		if at, ok := x.places()[r.Fact.Cause]; ok && int(at) < pos {
			return int(at), "the event that it names as its cause"
		}
	}
	switch e := r.Fact.Event.(type) {
	case task.ScheduleAdmitted, task.ScheduleSkipped, task.ScheduleQueued:
		if r.Fact.By != nil && r.Fact.By.Offer > 0 {
			if at := x.span.after(r.Fact.By.Offer) - 1; at >= 0 && x.span.facts[at].seq == r.Fact.By.Offer {
				return at, "the timer of its planned run"
			}
		}
	case task.Submitted:
		if at, ok := x.places()[tickOf+string(r.Fact.Task)]; e.Schedule != "" && ok && int(at) < pos {
			return int(at), "the planned run that made it"
		}
	}
	if c := x.span.chains[view.RefOf(r)]; c != nil {
		if i := c.upTo(pos - 1); i > 0 {
			return int(c.at[i-1]), "before it on the chain"
		}
	}
	if r.Fact.Task != "" {
		if e, ok := r.Fact.Event.(task.Submitted); ok && e.Parent != "" {
			if c := x.span.chains[view.Task(e.Parent)]; c != nil && c.upTo(pos-1) > 0 {
				return int(c.at[c.upTo(pos-1)-1]), "its parent"
			}
		}
	}
	return -1, ""
}

// effects lists the consequences of the fact at the point: the next one on its chain, and those
// that name it as their cause.
func (x *Session) effects() (*Answer, error) {
	if x.at.pos < x.span.begin {
		return nil, errors.New("the point is before the first event of the span: `s` goes to that")
	}
	here := x.line(x.at.pos, "here")
	lines := []Line{here}
	x.places()
	for pos := x.at.pos + 1; pos < len(x.span.facts) && len(lines) < most; pos++ {
		r := x.span.record(pos)
		if at, why := x.cause(pos, &r); at == x.at.pos {
			lines = append(lines, x.line(pos, strings.Replace(why, "before it", "next", 1)))
		}
	}
	return &Answer{Lines: lines}, nil
}

// tickOf is before a task in [Session.places]: the tick that made it.
const tickOf = "tick of "

// places are the places of facts, by id.
func (x *Session) places() map[string]int32 {
	if x.ids == nil {
		x.ids = make(map[string]int32, len(x.span.facts))
		for pos := range x.span.facts {
			r := x.span.record(pos)
			if r.Fact.ID != "" {
				x.ids[r.Fact.ID] = int32(pos) // a span of more facts does not go into memory
			}
			if e, ok := r.Fact.Event.(task.ScheduleAdmitted); ok {
				x.ids[tickOf+string(e.Made)] = int32(pos) // likewise
			}
		}
	}
	return x.ids
}

func (x *Session) line(pos int, why string) Line {
	r := x.span.record(pos)
	return Line{Seq: r.Seq, Stored: r.Stored, Type: typeOf(&r), About: name(view.RefOf(&r), &r), Why: why, Record: r}
}
