package view

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	family "millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/value"
)

// present is a view that also answers what does not follow from the log.
type present struct {
	*World
	beats    map[node.ID]node.Heartbeat
	paused   *queue.Pause
	standing *quota.Standing
}

func (p *present) Beats(context.Context) (map[node.ID]node.Heartbeat, error)    { return p.beats, nil }
func (p *present) Ran(context.Context, string) (string, error)                  { return "n2", nil }
func (p *present) Paused(context.Context, placement.Lane) (*queue.Pause, error) { return p.paused, nil }
func (p *present) Standing(context.Context, task.ID, int) (*quota.Standing, error) {
	return p.standing, nil
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		name string
		log  func(s *story) task.ID
		view func(s *story) View // default: the past at the end
		want func(e *Explanation) bool
	}{
		{"waits, and nobody serves its queue", func(s *story) task.ID { return s.submit(birth.Submission{Queue: "images"}) }, nil,
			func(e *Explanation) bool {
				return e.Who == "operator" && strings.Contains(e.What, "images") && e.By.IsZero() && len(e.Nodes) == 0 && len(e.Decisive) == 1
			}},
		{"waits, and a node may claim it", func(s *story) task.ID {
			s.ready("n1", "images", nil)
			return s.submit(birth.Submission{Queue: "images"})
		}, nil, func(e *Explanation) bool {
			return e.Who == "worker" && len(e.Nodes) == 1 && e.Nodes[0].Rule == "" && e.Suspect == nil && e.Enforced
		}},
		{"waits, and its queue is paused", func(s *story) task.ID {
			s.ready("n1", "images", nil)
			s.add(events.KindQueue, events.Fact{Queue: "images", Event: queue.Paused{Reason: "too loud"}})
			return s.submit(birth.Submission{Queue: "images"})
		}, nil, func(e *Explanation) bool { return e.Who == "operator" }},
		{"waits without nodes, and its queue was resumed", func(s *story) task.ID {
			id := s.submit(birth.Submission{Queue: "images"})
			s.add(events.KindQueue, events.Fact{Queue: "images", Event: queue.Paused{}})
			s.add(events.KindQueue, events.Fact{Queue: "images", Event: queue.Resumed{}})
			return id
		}, nil, func(e *Explanation) bool {
			return e.Who == "operator" && e.What == `start a worker that serves queue "images"; waiting since 2026-08-01T12:00:02Z` && e.By.IsZero()
		}},
		{"waits, and the server alone has paused its consumer", func(s *story) task.ID {
			s.ready("n1", "images", nil)
			return s.submit(birth.Submission{Queue: "images"})
		}, func(s *story) View {
			return &present{World: s.end(), paused: &queue.Pause{Until: noon.Add(time.Hour), Consumer: "MR_LOG queue_images"}}
		}, func(e *Explanation) bool { return strings.Contains(e.What, "nats consumer resume") }},
		{"runs on a node whose heartbeat has run out", func(s *story) task.ID {
			s.ready("n1", "images", nil)
			id := s.submit(birth.Submission{Queue: "images"})
			s.start(id, "n1")
			return id
		}, func(s *story) View { return &present{World: s.end()} },
			func(e *Explanation) bool {
				return e.Suspect != nil && e.Suspect.Node == "n1" && e.State == task.Running
			}},
		{"ran on a node, which is not judged by the heartbeats of today", func(s *story) task.ID {
			s.ready("n1", "images", nil)
			id := s.submit(birth.Submission{Queue: "images"})
			s.start(id, "n1")
			return id
		}, nil, func(e *Explanation) bool { return e.Suspect == nil }},
		{"failed", func(s *story) task.ID {
			id := s.submit(birth.Submission{})
			s.fail(id, s.start(id, "n1"), "no space left")
			return id
		}, nil, func(e *Explanation) bool {
			return e.State == task.Error && e.Message == "no space left" && len(e.Decisive) == 3 && e.Who == "nobody"
		}},
		{"needs one that is there and one that is not", func(s *story) task.ID {
			there := s.submit(birth.Submission{})
			return s.submit(birth.Submission{Needs: &task.Needs{Of: []task.Need{{Task: there}, {Task: "01JD6Z8V3M0QK4T7W2X9Y5ZZZZ"}}}})
		}, nil, func(e *Explanation) bool { return slices.Equal(e.Missing, []task.ID{"01JD6Z8V3M0QK4T7W2X9Y5ZZZZ"}) }},
		{"is late at its own time, not at ours", func(s *story) task.ID {
			id := s.submit(birth.Submission{At: noon.Add(time.Hour)})
			return id
		}, nil, func(e *Explanation) bool { return !e.Overdue && e.By.Equal(noon.Add(time.Hour)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &story{t: t}
			id := c.log(s)
			var v View = s.end()
			if c.view != nil {
				v = c.view(s)
			}
			e, err := Why(t.Context(), v, id, Rules{Task: duties.Settings{AckWait: time.Minute}, Node: node.Settings{TTL: time.Minute}, Now: noon.Add(24 * time.Hour)})
			if err != nil || !c.want(e) {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	if _, err := Why(t.Context(), (&story{t: t}).end(), "01JD6Z8V3M0QK4T7W2X9Y5ZZZZ", Rules{}); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("a task that is not there: %v", err)
	}
}

// The explanation of a long history is short: the birth, and the latest facts.
func TestDecisiveFacts(t *testing.T) {
	s := &story{t: t}
	id := s.submit(birth.Submission{})
	for range 5 {
		epoch := s.start(id, "n1")
		s.on(id, task.AttemptLost{Epoch: epoch, Reason: "the node has vanished"})
	}
	e, err := Why(t.Context(), s.end(), id, Rules{})
	if err != nil || len(e.Decisive) != maxDecisive || e.Decisive[0].Seq != 1 || e.Decisive[maxDecisive-1].Seq != 11 {
		t.Errorf("%+v, %v", e, err)
	}
}

// kin returns a parent with two steps, the second of which is not made yet, and when it became a
// parent.
func kin(s *story) (parent task.ID, made uint64) {
	spec := job.Spec{Steps: []job.Step{{Name: "fetch", Spec: job.Spec{Handler: "x"}}, {Name: "load", Needs: []job.StepNeed{{Step: "fetch"}}, Spec: job.Spec{Handler: "x"}}}}
	parent = s.submit(birth.Submission{Spec: &spec})
	t := events.FoldTask(parent, s.about(Task(parent)))
	made = s.on(parent, task.Expanded(node.Expand(&t, nil, 0)))
	birth := family.Births(&t)
	b := birth("fetch")
	s.add(events.KindOffer, events.Fact{Task: family.ChildID(parent, "fetch"), Event: b})
	s.start(family.ChildID(parent, "fetch"), "n1")
	return parent, made
}

func TestPlan(t *testing.T) {
	gpu, err := placement.ParseSelector("gpu")
	if err != nil {
		t.Fatal(err)
	}
	s := &story{t: t}
	s.ready("n1", "images", map[string]string{"gpu": ""})
	s.ready("n2", "images", nil) // 4 to 6
	chosen := job.Spec{Handler: "x"}
	chosen.Place.Labels = gpu
	id := s.submit(birth.Submission{Spec: &chosen, Queue: "images"})
	rules := func(p *Plan) (all []string) {
		for _, v := range p.Nodes {
			all = append(all, string(v.Node)+" "+string(v.Rule))
		}
		return all
	}
	p, err := PlanTask(t.Context(), s.end(), id, noon)
	if err != nil || !slices.Equal(rules(&p), []string{"n1 ", "n2 label"}) || p.NoNode != job.NoNodeExpire || p.Seq != 7 {
		t.Errorf("%+v, %v", p, err)
	}
	j := job.Job{Name: "crop", Spec: chosen}
	plans, err := PlanJobs(t.Context(), s.at(3), []job.Job{j, {Name: "any", Spec: job.Spec{Handler: "x"}}}, birth.Submission{Queue: "images"}, noon)
	if err != nil || len(plans) != 2 || !slices.Equal(rules(&plans[0]), []string{"n1 "}) || plans[0].Job != "crop" || plans[1].NoNode != "" {
		t.Errorf("before n2 came: %+v, %v", plans, err)
	}
	if _, err := PlanJobs(t.Context(), s.end(), []job.Job{{Name: "empty"}}, birth.Submission{}, noon); !errors.Is(err, ErrQuery) {
		t.Errorf("a job that does nothing: %v", err)
	}
	if _, err := PlanTask(t.Context(), s.at(6), id, noon); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("before the task was born: %v", err)
	}
	// The log does not hold the node to which a name stuck.
	sticky := job.Job{Name: "sticky", Spec: job.Spec{Handler: "x", Place: job.Place{Sticky: job.StickyJob}}}
	for name, c := range map[string]struct {
		v    View
		want bool
	}{"present": {&present{World: s.end()}, true}, "past": {s.end(), false}} {
		plans, err := PlanJobs(t.Context(), c.v, []job.Job{sticky}, birth.Submission{Queue: "images"}, noon)
		if err != nil || len(plans) != 1 || slices.ContainsFunc(plans[0].Nodes, func(v node.Verdict) bool { return v.Ran }) != c.want {
			t.Errorf("%s: %+v, %v", name, plans, err)
		}
	}
}

// A plan says what each rule of a job allows.
func TestPlanSaysEachRule(t *testing.T) {
	s := &story{t: t}
	s.ready("n1", "default", nil)
	for i := range job.Rules {
		r := &job.Rules[i]
		j := job.Job{Name: "j", Spec: job.Spec{Handler: "x"}}
		if r.Least(&j.Spec); r.Words == nil {
			continue // its answer depends on the world: TestPlan and TestPlanOfRules
		}
		plans, err := PlanJobs(t.Context(), s.end(), []job.Job{j}, birth.Submission{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		said := slices.Concat(plans[0].PerNode, plans[0].Budgets)
		for _, of := range plans[0].Rules {
			said = append(said, of.Words...)
		}
		if !slices.Equal(said, r.Words(&j.Spec)) {
			t.Errorf("%s: a plan says %q, want %q", r.Name, said, r.Words(&j.Spec))
		}
	}
}

// A plan and an explanation ask the rules that postpone tasks, as a claim does: by the state of the
// breaker, by the calendar, and by what runs on each node.
func TestRulesAreAsked(t *testing.T) {
	s := &story{t: t}
	s.ready("n1", "images", nil)
	s.ready("n2", "images", nil)
	ruled := job.Spec{Handler: "x", Window: "night", PerNode: limit.PerNodes{{Max: 1}}, Breaker: &limit.Breaker{Failures: 2}}
	of := &job.Job{Name: "crop", Spec: ruled}
	s.add(events.KindDefinition, events.Fact{Def: task.Named(task.DefCalendar, "night"),
		Event: task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: []byte(`{"name":"night","rules":[{"closed":"11:00-18:00"}]}`)}}})
	s.add(events.KindBreaker, events.Fact{Job: "crop", Event: limit.Opened{Until: noon.Add(time.Hour), Reason: "2 attempts failed"}})
	runs, id := s.bear(birth.Submission{Queue: "images"}, of), s.bear(birth.Submission{Queue: "images"}, of)
	s.start(runs, "n1")

	e, err := Why(t.Context(), s.end(), id, Rules{Now: noon})
	if err != nil || !strings.Contains(e.What, "; its breaker keeps it from starting now: the breaker of job crop is open until ") ||
		!strings.Contains(e.What, "; its window keeps it from starting now: outside of the window night, opens at ") {
		t.Errorf("why: %+v, %v", e, err)
	}
	p, err := PlanTask(t.Context(), s.end(), id, noon)
	if err != nil || len(p.Rules) != 1 || len(p.Rules[0].Words) != 2 || !strings.HasPrefix(p.Rules[0].Words[1], "the breaker of job crop is open until ") {
		t.Errorf("plan: %+v, %v", p, err)
	}
	for name, nodes := range map[string][]node.Verdict{"why": e.Nodes, "plan": p.Nodes} {
		if len(nodes) != 2 || nodes[0].Node != "n2" || nodes[0].Rule != "" || nodes[1].Rule != value.PerNode ||
			nodes[1].Why != "node n1 has as many tasks under way of job crop as per_node allows: 1" {
			t.Errorf("%s: %+v", name, nodes)
		}
	}
	plans, err := PlanJobs(t.Context(), s.end(), []job.Job{*of}, birth.Submission{Queue: "images"}, noon)
	if err != nil || len(plans[0].Rules) != 1 || len(plans[0].Rules[0].Words) != 2 || plans[0].Nodes[1].Rule != value.PerNode {
		t.Errorf("plan of the job: %+v, %v", plans, err)
	}
}

// A plan says whether windows are open and how many tasks may run on one node, for a task and for a
// job whose keys are not expanded. Why says that the queue of a task is closed.
func TestPlanOfRules(t *testing.T) {
	s := &story{t: t}
	s.ready("n1", "images", nil)
	for name, text := range map[string]string{
		"day": `{"name":"day","rules":[{"open":"11:00-18:00"}],"otherwise":"closed"}`, "night": `{"name":"night","rules":[{"closed":"11:00-18:00"}]}`,
	} {
		is := task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: []byte(text)}}
		s.add(events.KindDefinition, events.Fact{Def: task.Named(task.DefCalendar, name), Event: is})
	}
	id := s.submit(birth.Submission{Spec: &job.Spec{Handler: "x", Window: "day", PerNode: limit.PerNodes{{Max: 2}}}, Queue: "images"})
	open := s.add(events.KindQueue, events.Fact{Queue: "images", Event: queue.Limited{Valve: queue.Valve{Window: "day"}}})
	s.add(events.KindQueue, events.Fact{Queue: "images", Event: queue.Limited{Valve: queue.Valve{Window: "night"}}})
	s.add(events.KindQueue, events.Fact{Queue: "other", Event: queue.Limited{Running: 3}})

	p, err := PlanTask(t.Context(), s.end(), id, noon)
	if err != nil || !slices.Equal(p.PerNode, []string{"at most 2 of them"}) || len(p.Windows) != 2 || p.Windows[0] != "inside of the window day" ||
		!strings.HasPrefix(p.Windows[1], `queue "images": outside of the window night, opens at `) {
		t.Errorf("a task: %+v, %v", p, err)
	}
	if p, err = PlanTask(t.Context(), s.at(open), id, noon); err != nil || !slices.Equal(p.Windows, []string{"inside of the window day", `queue "images": inside of the window day`}) {
		t.Errorf("a task before: %+v, %v", p, err)
	}
	keyed := job.Job{Name: "keyed", Spec: job.Spec{Handler: "x", Window: "night", PerNode: limit.PerNodes{{Max: 1, Key: "{params.customer}"}, {Max: 4}}}}
	plans, err := PlanJobs(t.Context(), s.end(), []job.Job{keyed, {Name: "any", Spec: job.Spec{Handler: "x"}}}, birth.Submission{Queue: "other"}, noon)
	if err != nil || !slices.Equal(plans[0].PerNode, []string{"at most 1 with the key {params.customer}", "at most 4 of them"}) ||
		len(plans[0].Windows) != 1 || !strings.HasPrefix(plans[0].Windows[0], "outside of the window night") || plans[1].PerNode != nil || plans[1].Windows != nil {
		t.Errorf("jobs: %+v, %v", plans, err)
	}

	for seq, want := range map[uint64]string{open: "as soon as a slot is free", open + 1: "claims it when that opens: outside of the window night, opens at "} {
		e, err := Why(t.Context(), s.at(seq), id, Rules{Task: duties.Settings{StartDeadline: time.Minute}, Now: noon})
		if err != nil || !strings.Contains(e.What, want) {
			t.Errorf("why at %d: %q, %v; want %q", seq, e.What, err, want)
		}
	}
}

func TestTree(t *testing.T) {
	s := &story{t: t}
	parent, made := kin(s)
	b, err := Tree(t.Context(), s.end(), s.end(), parent)
	if err != nil || len(b.Branches) != 2 || b.Branches[0].Name != "fetch" || b.Branches[0].Task.State != task.Running ||
		b.Branches[1].Name != "load" || b.Branches[1].Task.ID != family.ChildID(parent, "load") || b.Branches[1].Task.State != task.Unknown {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := Tree(t.Context(), s.at(made), s.end(), parent); err != nil || len(b.Branches) != 2 || b.Branches[0].Task.State != task.Unknown {
		t.Errorf("before the first step was made: %+v, %v", b, err)
	}
	if _, err := Tree(t.Context(), s.end(), s.end(), "01JD6Z8V3M0QK4T7W2X9Y5ZZZZ"); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("a task that is not there: %v", err)
	}

	// What a step has spawned lies below it, with what that has spawned, and belongs to no whole.
	fetch := family.ChildID(parent, "fetch")
	spawn := func(of task.ID, key string) task.ID {
		id := family.ChildID(of, key)
		s.add(events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5", Parent: of}}})
		return id
	}
	other := s.submit(birth.Submission{}) // in the same millisecond
	spawn(other, "a")
	first, second := spawn(fetch, "z"), spawn(fetch, "a")
	below := spawn(first, "a")
	b, err = Tree(t.Context(), s.end(), s.end(), parent)
	if err != nil || len(b.Branches) != 2 || len(b.Branches[0].Branches) != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	for i, want := range []task.ID{first, second} {
		if is := b.Branches[0].Branches[i]; is.Task.ID != want || !is.Spawned || is.Name != "" || len(is.Branches) != 1-i || i == 0 && is.Branches[0].Task.ID != below {
			t.Errorf("spawned as number %d: %+v, want %s", i, is, want)
		}
	}
	before := uint64(len(s.records)) - 1 // the last one is not there yet
	if b, err := Tree(t.Context(), s.at(before), s.end(), parent); err != nil || len(b.Branches[0].Branches) != 2 || len(b.Branches[0].Branches[0].Branches) != 0 {
		t.Errorf("before the last one was spawned: %+v, %v", b, err)
	}
	if b, err := ExpandedTree(t.Context(), s.end(), parent); err != nil || len(b.Branches) != 2 || len(b.Branches[0].Branches) != 0 {
		t.Errorf("the whole: %+v, %v", b, err)
	}
	if b, err := Tree(t.Context(), s.end(), unlisted{s.end()}, parent); err != nil || len(b.Branches) != 2 || len(b.Branches[0].Branches) != 0 {
		t.Errorf("nobody lists tasks: %+v, %v", b, err)
	}

	k, err := GetTask(t.Context(), s.end(), parent)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := ReadParts(t.Context(), s.end(), &k)
	if err != nil || len(parts.Running) != 1 || parts.Running[0].Name != "fetch" || len(parts.Failed) != 0 {
		t.Errorf("%+v, %v", parts, err)
	}
	child := family.ChildID(parent, "fetch")
	s.fail(child, events.FoldTask(child, s.about(Task(child))).Epoch, "no route")
	if parts, err = ReadParts(t.Context(), s.end(), &k); err != nil || len(parts.Failed) != 1 || parts.Failed[0].Message != "no route" {
		t.Errorf("%+v, %v", parts, err)
	}
}

func TestDiff(t *testing.T) {
	s, a, b := tale(t)
	opened := s.add(events.KindBreaker, events.Fact{Job: "crawl", Event: limit.Opened{Reason: "too often"}})
	changed := func(changes []Change, err error) map[string]string {
		if err != nil {
			t.Error(err)
		}
		all := map[string]string{}
		for _, c := range changes {
			all[c.Field] = string(c.Was) + " " + string(c.Is)
		}
		return all
	}
	at := func(seq uint64, ref Ref) Item {
		item, err := s.at(seq).Get(t.Context(), ref)
		if err != nil && !unknown(err) {
			t.Error(err)
		}
		return item
	}
	for _, c := range []struct {
		name        string
		from, to    uint64
		ref         Ref
		field, want string
		most        int
	}{
		{"a start", 5, 6, Task(a), "state", `"pending" "running"`, 99},
		{"a field that came", 5, 6, Task(a), "node", ` "n1"`, 99},
		{"nothing", 6, 7, Task(a), "state", "", 0},
		{"a birth", 3, 4, Task(a), "labels.of", ` "acme"`, 99},
		{"neither is there", 2, 3, Task(a), "state", "", 0},
		{"a node", 11, 12, Node("n1"), "state", `"ready" "offline"`, 99},
		{"a breaker", opened - 1, opened, Breaker("crawl"), "state", `"closed" "open"`, 99},
		{"another breaker", opened - 1, opened, Breaker("bulk"), "state", "", 0},
		{"a queue", 6, 7, Queue("bulk"), "paused.reason", ` "too loud"`, 99},
	} {
		all := changed(DiffItems(at(c.from, c.ref), at(c.to, c.ref)))
		if all[c.field] != c.want || len(all) > c.most {
			t.Errorf("%s: %v", c.name, all)
		}
	}
	one, _ := s.end().Get(t.Context(), Task(a))
	other, _ := s.end().Get(t.Context(), Task(b))
	if all := changed(DiffItems(one, other)); all["state"] != `"finished" "pending"` || all["spec.handler"] != "" {
		t.Errorf("two tasks: %v", all)
	}
	if all := changed(DiffItems(one, one)); !reflect.DeepEqual(all, map[string]string{}) {
		t.Errorf("a task and itself: %v", all)
	}
}

func TestAround(t *testing.T) {
	serves := func(id node.ID, s node.State, since time.Time) node.Node {
		return node.Node{ID: id, State: s, Since: since, Profile: node.Profile{Queues: []string{"bulk"}}}
	}
	waiting := task.Task{State: task.Pending, Work: task.Work{Route: "bulk.5"}, Node: "node-a"}
	running := waiting
	running.State = task.Running
	gone := serves("node-a", node.Offline, noon)
	for name, c := range map[string]struct {
		t     task.Task
		nodes []node.Node
		want  duties.Surroundings
	}{
		"no nodes":           {waiting, nil, duties.Surroundings{NoNode: `no node serves queue "bulk" (0 looked at)`}},
		"other queue":        {waiting, []node.Node{{ID: "x", State: node.Online, Since: noon}}, duties.Surroundings{NoNode: `no node serves queue "bulk" (1 looked at)`}},
		"served":             {waiting, []node.Node{serves("b", node.Online, noon), gone}, duties.Surroundings{Serving: 1, Served: noon}},
		"no longer served":   {waiting, []node.Node{serves("b", node.Draining, noon.Add(time.Minute)), gone}, duties.Surroundings{Unserved: noon.Add(time.Minute), NoNode: `no node that serves queue "bulk" takes work (2 looked at, 2 such)`, Undo: "`millrace node undrain b`"}},
		"its node is gone":   {running, []node.Node{gone, serves("b", node.Online, noon)}, duties.Surroundings{Serving: 1, Served: noon, NodeGone: noon}},
		"node of a past try": {waiting, []node.Node{gone}, duties.Surroundings{Unserved: noon, NoNode: `no node that serves queue "bulk" takes work (1 looked at, 1 such)`}},
	} {
		c.want.Seen = noon
		if got := around(&c.t, c.nodes, queue.Queue{}, noon); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// wholeAt returns all of a tale as of a sequence.
func wholeAt(s *story, seq uint64) Whole {
	m := NewMemory()
	for i := range s.records[:seq] {
		m.Add(&s.records[i])
	}
	return FoldedAt(m, Slice(s.records).About)
}

// Lists of named items are compared by name. Any other list is one field.
func TestDiffLists(t *testing.T) {
	for name, c := range map[string]struct{ was, is, want string }{
		"one that is declared otherwise": {`{"params":[{"name":"a","max":1},{"name":"b"}]}`, `{"params":[{"name":"b"},{"name":"a","max":2}]}`, `[{"field":"params.a.max","was":1,"is":2}]`},
		"one more":                       {`{"params":[{"name":"a"}]}`, `{"params":[{"name":"a"},{"name":"b"}]}`, `[{"field":"params.b.name","is":"b"}]`},
		"one without a name":             {`{"l":[{"name":"a"},{}]}`, `{"l":[{"name":"a"},{"x":1}]}`, `[{"field":"l","was":[{"name":"a"},{}],"is":[{"name":"a"},{"x":1}]}]`},
		"one name twice":                 {`{"l":[{"name":"a"},{"name":"a"}]}`, `{"l":[]}`, `[{"field":"l","was":[{"name":"a"},{"name":"a"}],"is":[]}]`},
		"texts":                          {`{"l":["a"]}`, `{"l":["b"]}`, `[{"field":"l","was":["a"],"is":["b"]}]`},
	} {
		changes, err := DiffValues(json.RawMessage(c.was), json.RawMessage(c.is))
		if got, _ := json.Marshal(changes); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
}

// What differs between any two runs stands apart, unless a measure is many times the other; what people look at first
// is first.
func TestTelling(t *testing.T) {
	for name, c := range map[string]struct{ was, is, telling, always string }{
		"one that failed": {
			`{"id":"a","exit":0,"labels":{"x":"1"},"node":"w1","params":{"disk":"sda"},"ran":"4s","session":"s","state":"finished","turn":3,"usage":{"run":"4s"}}`,
			`{"id":"b","exit":7,"labels":{"x":"2"},"message":"no","node":"w2","params":{"disk":"sdb"},"ran":"7s","session":"t","state":"error","turn":9,"usage":{"run":"6s"}}`,
			"state exit message params.disk node labels.x", "id ran session turn usage.run",
		},
		"one that took long":     {`{"ran":"4s","usage":{"max_memory":20000000}}`, `{"ran":"8s","usage":{"max_memory":39000000}}`, "ran", "usage.max_memory"},
		"short ones":             {`{"ran":"4ms","usage":{"max_memory":1000}}`, `{"ran":"800ms","usage":{"max_memory":9000}}`, "", "ran usage.max_memory"},
		"one that took memory":   {`{"ran":"4s","usage":{"max_memory":20000000}}`, `{"ran":"7s","usage":{"max_memory":90000000}}`, "usage.max_memory", "ran"},
		"one that was killed":    {`{"ran":"1h"}`, `{"usage":{"signal":"killed"}}`, "ran usage.signal", ""},
		"one that ran at all":    {`{}`, `{"ran":"1h"}`, "ran", ""},
		"one at its limits":      {`{"usage":{"limits":["memory"]}}`, `{"usage":{"refused":"no"}}`, "usage.limits usage.refused", ""},
		"one that did something": {`{"state":"error"}`, `{"state":"error","retries":3}`, "retries", ""},
	} {
		changes, err := DiffValues(json.RawMessage(c.was), json.RawMessage(c.is))
		if err != nil {
			t.Fatal(err)
		}
		names := func(changes []Change) string {
			var all []string
			for _, c := range changes {
				all = append(all, c.Field)
			}
			return strings.Join(all, " ")
		}
		if telling, always := Telling(changes); names(telling) != c.telling || names(always) != c.always {
			t.Errorf("%s: %q tell something, and %q are of any two", name, names(telling), names(always))
		}
	}
}

// The last good run is the latest before a task that finished, of its job, by itself, and not too long ago.
func TestLastGood(t *testing.T) {
	s := &story{t: t}
	s.ready("n1", "default", nil)
	var ids []task.ID
	for _, end := range []string{"other", "good", "good", "step", "bad", "this", "good"} {
		sub, of := birth.Submission{Job: "crop"}, &job.Job{Name: "crop", Spec: job.Spec{Handler: "crop"}}
		if end == "other" {
			sub.Job, of.Name = "other", "other"
		}
		id := s.bear(sub, of)
		if born, ok := s.records[len(s.records)-1].Fact.Event.(task.Submitted); ok && end == "step" {
			born.Parent = ids[0]
			s.records[len(s.records)-1].Fact.Event = born
		}
		if epoch := s.start(id, "n1"); end == "bad" || end == "this" {
			s.fail(id, epoch, "no")
		} else {
			s.finish(id, epoch)
		}
		ids = append(ids, id)
	}
	of := func(i int) task.Task {
		is, err := GetTask(t.Context(), s.end(), ids[i])
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	late, plain := of(5), of(5)
	late.SubmittedAt = late.SubmittedAt.Add(goodWithin + time.Hour)
	plain.Job = ""
	for name, c := range map[string]struct {
		of   task.Task
		want task.ID
	}{"one that failed": {of(5), ids[2]}, "a good one": {of(2), ids[1]}, "the first": {of(1), ""}, "a step": {of(3), ""}, "one of no job": {plain, ""}, "a month later": {late, ""}} {
		var got task.ID
		good, err := LastGood(t.Context(), s.end(), &c.of)
		if good != nil {
			got = good.ID
		}
		if err != nil || got != c.want {
			t.Errorf("before %s: %q, want %q: %v", name, got, c.want, err)
		}
	}
}

func TestDiffAll(t *testing.T) {
	s, a, b := tale(t)
	for _, c := range []struct {
		was, is uint64
		f       Filter
		most    int
		things  []string
		steps   map[string]int
		tasks   []task.ID
		more    int
	}{
		{13, 13, Filter{}, 9, nil, map[string]int{}, nil, 0},
		{3, 5, Filter{}, 9, nil, map[string]int{"new to pending": 2}, []task.ID{a, b}, 0},
		{3, 5, Filter{}, 1, nil, map[string]int{"new to pending": 2}, []task.ID{a}, 1},
		{3, 5, Filter{Queue: "bulk"}, 1, nil, map[string]int{"new to pending": 1}, []task.ID{b}, 0},
		{5, 8, Filter{}, 9, []string{"queue bulk new"}, map[string]int{"pending to finished": 1}, []task.ID{a}, 0},
		{8, 13, Filter{}, 9, []string{"job hello new", "node n1 changed"}, map[string]int{}, nil, 0},
		{8, 3, Filter{}, 9, []string{"queue bulk gone"}, map[string]int{}, nil, 0},
	} {
		d, err := DiffAll(t.Context(), wholeAt(s, c.was), wholeAt(s, c.is), c.f, c.most)
		var things []string
		for _, k := range d.Things {
			things = append(things, k.Kind+" "+k.Name+" "+k.How)
		}
		var tasks []task.ID
		for _, k := range d.Tasks {
			tasks = append(tasks, k.Task)
		}
		if err != nil || !slices.Equal(things, c.things) || !reflect.DeepEqual(d.Steps, c.steps) || !slices.Equal(tasks, c.tasks) || d.More != c.more ||
			d.None() != (len(things)+len(tasks)+d.More == 0) {
			t.Errorf("%d to %d %+v: %+v, %v; want %+v", c.was, c.is, c.f, d, err, c)
		}
	}
	d, err := DiffAll(t.Context(), wholeAt(s, 5), wholeAt(s, 8), Filter{}, 9)
	if want := map[string][2]int{"pending": {2, 1}, "finished": {0, 1}}; err != nil || !reflect.DeepEqual(d.Counts, want) {
		t.Errorf("%v, %v; want %v", d.Counts, err, want)
	}
}

// A task that was born later with an earlier id is new, and the one behind it is not skipped.
func TestEarlierTasksAreFound(t *testing.T) {
	fold := func(tasks map[task.ID]task.State) Folded {
		m := NewMemory()
		for id, state := range tasks {
			m.tasks[id], m.ids = &numberedTask{Task: task.Task{ID: id, State: state}}, append(m.ids, id)
		}
		return FoldedAt(m, nil)
	}
	was := fold(map[task.ID]task.State{"B": task.Pending, "D": task.Running})
	is := fold(map[task.ID]task.State{"A": task.Held, "B": task.Running, "C": task.Held, "D": task.Finished, "E": task.Held})
	steps, err := is.Steps(t.Context(), was, Filter{}, 9)
	have := map[task.ID]task.State{}
	for i := range steps.First {
		have[steps.First[i].ID] = steps.Was[i]
	}
	if want := map[task.ID]task.State{"A": task.Unknown, "B": task.Pending, "C": task.Unknown, "D": task.Running, "E": task.Unknown}; err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("%v, %v; want %v", have, err, want)
	}
}

// unlisted is a view without lists of tasks.
type unlisted struct{ *World }

func (u unlisted) List(ctx context.Context, q Query) (Page, error) {
	if q.Kind == Tasks {
		return Page{}, ErrUnlisted
	}
	return u.World.List(ctx, q)
}

// A child that has ended is owed another life from the retry of its parent until a scheduler gives it
// that.
func TestLivesAgain(t *testing.T) {
	s := &story{t: t}
	parent, _ := kin(s)
	fetch := family.ChildID(parent, "fetch")
	s.fail(fetch, uint64(len(s.records)), "no route")
	failed := s.on(parent, task.Concluded{State: task.Error})
	asked := s.on(parent, task.Reopened{Again: task.AllAgain})
	again := s.on(fetch, task.Reopened{})
	for seq, want := range map[uint64]bool{failed - 1: false, failed: false, asked: true, again: false} {
		e, err := Why(t.Context(), s.at(seq), fetch, Rules{Task: duties.Settings{StartDeadline: time.Minute}, Now: noon})
		if err != nil || e.LivesAgain != want || (e.Who == "scheduler" && strings.Contains(e.What, "reopen")) != want {
			t.Errorf("at %d: lives again %v, %s must %q, %v; want %v", seq, e.LivesAgain, e.Who, e.What, err, want)
		}
	}
}
