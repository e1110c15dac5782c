package answers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events/jet/definitions"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/condition"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/quota"
	"millrace/task/value"
)

// doubts returns what is known of all nodes now.
func (s *Service) doubts(ctx context.Context) (*node.Doubts, error) {
	all, err := s.view().List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return nil, err
	}
	beats, err := s.view().Beats(ctx)
	if err != nil {
		return nil, err
	}
	return node.NewDoubts(all.Nodes, beats, s.now(), s.Nodes), nil
}

func (s *Service) now() time.Time {
	if s.Now == nil {
		return s.Client.Now()
	}
	return s.Now()
}

// suspects returns the doubts about the nodes of these tasks. For a page without tasks that depend
// on a node it asks nothing.
func (s *Service) suspects(ctx context.Context, tasks []task.Task) (map[task.ID]*node.Doubt, error) {
	if !slices.ContainsFunc(tasks, func(t task.Task) bool { id, _ := node.DependsOn(&t); return id != "" }) {
		return nil, nil
	}
	doubts, err := s.doubts(ctx)
	if err != nil {
		return nil, err
	}
	suspects := map[task.ID]*node.Doubt{}
	for i := range tasks {
		if d := doubts.Of(&tasks[i]); d != nil {
			suspects[tasks[i].ID] = d
		}
	}
	return suspects, nil
}

// unserved returns why no node takes those of these tasks that are pending in a queue. For a page without
// such tasks it asks nothing.
func (s *Service) unserved(ctx context.Context, tasks []task.Task) (map[task.ID]string, error) {
	inQueue := func(t task.Task) bool { _, own := t.Route.Node(); return t.State == task.Pending && !own }
	if !slices.ContainsFunc(tasks, inQueue) {
		return nil, nil
	}
	nodes, err := s.view().List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return nil, err
	}
	w, why := node.NewFleet(nodes.Nodes, nodes.Point.Seq, s.now()), map[task.ID]string{}
	for i := range tasks {
		t := &tasks[i]
		if !inQueue(*t) || w.Around(t).NoNode == "" {
			continue
		}
		if q := t.QueueName(); !w.Told(q) { // a paused queue misses no node
			said, err := view.GetQueue(ctx, s.view(), q)
			if err != nil {
				return nil, err
			}
			w.Tell(said)
		}
		if no := w.Around(t).NoNode; no != "" {
			why[t.ID] = no
		}
	}
	return why, nil
}

// Bounds of what [Service.attention] looks at.
const (
	mattersOf  = 20             // of a kind
	lookedAt   = 500            // failures
	failedFor  = 24 * time.Hour // before now
	amongTasks = 100            // with a deadline that has passed, as overdue has some slack
)

// attentionRequest asks what needs a person, at a moment.
type attentionRequest struct {
	// At is a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
}

func (s *Service) attention(ctx context.Context, r attentionRequest) (client.Attention, error) {
	if err := s.await(ctx, r.AtLeast, 0); err != nil {
		return client.Attention{}, err
	}
	sight, err := s.See(ctx, r.At)
	if err != nil {
		return client.Attention{}, err
	}
	return sight.Attention(ctx)
}

// Attention returns what goes on only when a person acts, and what has failed within a day. Of the past it
// knows no approvals, deadlines, heartbeats and unreadable messages.
func (s *Sight) Attention(ctx context.Context) (client.Attention, error) {
	is, err := s.Matters(ctx)
	if err == nil {
		is.Failures, is.Partly, err = s.Failures(ctx)
	}
	return is, err
}

// Matters is [Sight.Attention] without failures.
func (s *Sight) Matters(ctx context.Context) (client.Attention, error) {
	g := &gathering{Sight: s, is: client.Attention{Matters: []client.Matter{}}}
	for _, gather := range []func(context.Context) error{g.approvals, g.overdue, g.nodes, g.jobs, g.queues, g.schedules, g.notices, g.letters, g.horizon} {
		if err := gather(ctx); err != nil {
			return g.is, err
		}
	}
	return g.is, nil
}

// gathering is an [client.Attention] that is being made.
type gathering struct {
	*Sight
	is client.Attention
}

// add adds matters of a kind, the longest waiting first, of which there are more.
func (g *gathering) add(more int, all ...client.Matter) {
	slices.SortStableFunc(all, func(a, b client.Matter) int { return a.Since.Compare(b.Since) })
	shown := all[:min(len(all), mattersOf)]
	g.is.Matters = append(g.is.Matters, shown...)
	g.is.More += len(all) - len(shown) + more
}

func (g *gathering) approvals(ctx context.Context) error {
	if g.Past {
		return nil
	}
	page, err := g.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Approval: true, OldestFirst: true, Limit: mattersOf}})
	if err != nil {
		return err
	}
	more := 0
	if page.Next != "" {
		counts, err := g.Count(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Approval: true}})
		if err != nil {
			return err
		}
		more = counts.All() - len(page.Tasks)
	}
	return g.tasks(ctx, client.MatterApproval, more, page.Tasks, func(*duties.Duty) bool { return true })
}

func (g *gathering) overdue(ctx context.Context) error {
	if g.Past {
		return nil
	}
	tasks, err := g.Overdue(ctx, amongTasks)
	if err != nil {
		return err
	}
	tasks = slices.DeleteFunc(tasks, func(t task.Task) bool { return t.AwaitsSignal() })
	return g.tasks(ctx, client.MatterOverdue, 0, tasks, func(d *duties.Duty) bool { return d.Overdue(g.Now) })
}

// tasks adds those tasks whose duty makes them matters.
func (g *gathering) tasks(ctx context.Context, kind string, more int, tasks []task.Task, counts func(*duties.Duty) bool) error {
	var all []client.Matter
	for i := range tasks {
		t := &tasks[i]
		duty, err := view.Owed(ctx, g.View, t, g.Rules)
		if err != nil {
			return err
		}
		if !counts(&duty) {
			continue
		}
		m := client.Matter{Kind: kind, ID: string(t.ID), Of: t.What(), Who: strings.Replace(duty.Who, "operator", node.Operator, 1), What: duty.What, Since: t.Since, Tasks: 1}
		switch kind {
		case client.MatterOverdue:
			m.Since = duty.By
		case client.MatterApproval:
			m.Who = cmp.Or(t.Signal().Asked(), m.Who)
		}
		all = append(all, m)
	}
	g.add(more, all...)
	return nil
}

func (g *gathering) nodes(ctx context.Context) error {
	page, err := client.NodesOf(ctx, g.View, g.Sums, g.Now, g.Rules.Node, &client.NodeListRequest{})
	if err != nil {
		return err
	}
	var all []client.Matter
	for i := range page.Nodes {
		n := &page.Nodes[i]
		m := client.Matter{Kind: client.MatterNode, ID: string(n.ID), Who: node.Operator, Since: n.Since, Tasks: n.Running}
		switch {
		case n.Quarantine != nil:
			m.What = fmt.Sprintf("it comes and goes, and gets no work: see why, and end its quarantine (`millrace node release %s`)", n.ID)
		case n.Silent:
			m.Since = n.LastBeat
			m.What = "no heartbeat comes from it: see whether its machine and its connection work"
		case n.State == node.Offline && n.KeptBy != "":
			m.Tasks = 1
			m.What = fmt.Sprintf("it has gone, and a task waits for it alone: start its worker, or say that it does not come back (`millrace node retire %s`)", n.ID)
		default:
			continue
		}
		all = append(all, m)
	}
	g.add(0, all...)
	return nil
}

func (g *gathering) jobs(ctx context.Context) error {
	jobs, err := client.JobsOf(ctx, g.View)
	if err != nil && len(jobs) == 0 && !errors.Is(err, definitions.ErrBadJob) {
		return err
	}
	g.add(0, unfollowed(jobs, err == nil)...)
	return g.breakers(ctx, jobs)
}

// unfollowed are the jobs of which what they name makes no tasks. Among whole jobs one that is missing does not exist.
func unfollowed(jobs []definitions.StoredJob, whole bool) (all []client.Matter) {
	after := map[string]string{}
	for i := range jobs {
		after[jobs[i].Name] = jobs[i].On.After()
	}
	for i := range jobs {
		j, what := &jobs[i], ""
		circle, _ := job.Circle(j.Name, func(name string) (string, error) { return after[name], nil })
		bad := condition.Compiles(&j.Job)
		switch _, there := after[j.On.After()]; {
		case circle != nil && slices.Min(circle) != j.Name: // it is told of another one
		case circle != nil:
			what = fmt.Sprintf("it follows its own ends (%s), so that these make no tasks: change on.job of one of them", strings.Join(circle, " after "))
		case whole && j.On.After() != "" && !there:
			what = fmt.Sprintf("it follows the ends of job %s, which does not exist: define that, or change on.job", j.On.Job)
		case bad != nil:
			what = fmt.Sprintf("nothing makes tasks of it, for its condition is none (%v): change on.when", bad)
		}
		if what != "" {
			all = append(all, client.Matter{Kind: client.MatterTrigger, ID: j.Name, Who: node.Operator, Since: j.Changed, What: what + " (`millrace job apply -f FILE`)"})
		}
	}
	return all
}

func (g *gathering) breakers(ctx context.Context, jobs []definitions.StoredJob) error {
	var all []client.Matter
	for i := range jobs {
		if !jobs[i].Guarded() {
			continue
		}
		is, err := g.Get(ctx, view.Breaker(jobs[i].Name))
		if err != nil {
			return err
		}
		if c := is.Breaker; c.State == limit.StateOpen {
			all = append(all, client.Matter{Kind: client.MatterBreaker, ID: jobs[i].Name, Who: node.Operator, Since: c.Since,
				What: fmt.Sprintf("its breaker is open (%s): mend what fails, and close it (`millrace job breaker reset %s`), or wait for its next trial", c.Reason, jobs[i].Name)})
		}
	}
	g.add(0, all...)
	return nil
}

func (g *gathering) queues(ctx context.Context) error {
	page, err := client.QueuesOf(ctx, g.View, g.Sums, &client.QueueListRequest{}, g.Now, func(string) *quota.CounterState { return nil })
	if err != nil {
		return err
	}
	var unserved, paused []client.Matter
	for i := range page.Queues {
		q := &page.Queues[i]
		if is := q.Unserved; is != nil {
			unserved = append(unserved, client.Matter{Kind: client.MatterUnserved, ID: q.Name, Who: node.Operator, Since: is.Since, Tasks: is.Tasks,
				What: is.Why + ": start a worker that takes them"})
		}
		if waiting := q.States[task.Pending.String()]; q.Paused != nil && waiting > 0 {
			paused = append(paused, client.Matter{Kind: client.MatterPaused, ID: q.Name, Who: node.Operator, Since: q.Paused.Since, Tasks: waiting,
				What: fmt.Sprintf("it is paused, and tasks wait in it: start them again (`millrace queue resume %s`)", q.Name)})
		}
	}
	for _, n := range page.UnservedNodes {
		unserved = append(unserved, client.Matter{Kind: client.MatterUnserved, ID: "@" + n.Node, Who: node.Operator, Since: n.Since, Tasks: n.Tasks,
			What: n.Why + ": start its worker"})
	}
	g.add(0, unserved...)
	g.add(0, paused...)
	return nil
}

func (g *gathering) schedules(ctx context.Context) error {
	rows, err := client.ScheduleRowsOf(ctx, g.View, g.Sums, g.Now)
	if err != nil && len(rows) == 0 && !errors.Is(err, definitions.ErrBadSchedule) {
		return err
	}
	var all []client.Matter
	for i := range rows {
		r := &rows[i]
		if n := r.Missed(); n > 0 {
			all = append(all, client.Matter{Kind: client.MatterSchedule, ID: r.Name, Of: r.Make.Job, Who: node.Operator, Tasks: n,
				What: fmt.Sprintf("%d planned runs of the last day have no task: see why (`millrace schedule show %s`), and make them up", n, r.Name)})
		}
	}
	g.add(0, all...)
	return nil
}

// notices that could not be sent are tried again for a day, and then dead letters: both are told.
func (g *gathering) notices(ctx context.Context) error {
	page, err := g.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Queue: job.NoticeQueue, States: []task.State{task.Retrying, task.Error, task.Abnormal}, Limit: mattersOf}})
	m := client.Matter{Kind: client.MatterNotice, Who: node.Operator}
	for i := range page.Tasks {
		if t := &page.Tasks[i]; t.Dismissed == nil && (t.Failures > 1 || t.State != task.Retrying) {
			if m.Tasks++; m.Since.IsZero() || t.SubmittedAt.Before(m.Since) {
				m.ID, m.Since = string(t.ID), t.SubmittedAt
				m.What = fmt.Sprintf("people are not told what they asked to be told (%s): mend the target, and see `millrace task ls --queue %s`", t.Message, job.NoticeQueue)
			}
		}
	}
	if m.Tasks > 0 {
		g.add(0, m)
	}
	return err
}

func (g *gathering) letters(ctx context.Context) error {
	counts, err := g.Count(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Dead: true}})
	if err != nil {
		return err
	}
	if n := counts.All(); n > 0 {
		g.add(0, client.Matter{Kind: client.MatterDead, Who: node.Operator, Tasks: n, What: "tasks have ended that nobody tries again: retry or drop them (`millrace dlq ls`)"})
	}
	if g.Past {
		return nil
	}
	page, err := g.List(ctx, view.Query{Kind: view.Messages, Filter: view.Filter{Limit: 1}})
	if err == nil && len(page.Messages) > 0 {
		g.add(0, client.Matter{Kind: client.MatterUnread, Who: node.Operator, What: "the log has messages that nobody can read: see who writes them, and drop them (`millrace dlq ls`)"})
	}
	return err
}

func (g *gathering) horizon(ctx context.Context) error {
	if g.Past || g.service == nil {
		return nil
	}
	h, err := g.service.horizon(ctx, nothing{})
	held := h.Held
	if err != nil || held == nil {
		return err
	}
	// A task may take its time; what does not pass by itself is told at once.
	age, bad := value.ParseDuration(h.Settings["keep_age"])
	if held.Stuck() || bad == nil && age > 0 && g.Now.Sub(held.Since) > 2*age {
		g.add(0, client.Matter{Kind: client.MatterHeldFront, ID: string(held.Task), Who: node.Operator, Since: held.Since,
			What: "the log grows, for its horizon does not pass " + held.What + ": see what keeps it (`millrace horizon`)"})
	}
	return nil
}

// Failures returns the tasks without a parent that failed within a day, those of one cause in one group, and
// whether there were more failures than it looks at.
func (s *Sight) Failures(ctx context.Context) (groups []client.FailureGroup, partly bool, err error) {
	groups = []client.FailureGroup{}
	log, ok := s.Sums.(Tracer)
	if !ok {
		return groups, false, nil
	}
	failed, err := log.LastFailed(ctx, lookedAt)
	if err != nil {
		return groups, false, err
	}
	since := s.Now.Add(-failedFor)
	partly = len(failed) == lookedAt && !failed[len(failed)-1].EndedAt.Before(since)
	type cause struct{ job, reason, message string }
	at, alike := map[cause]int{}, map[string]string{} // nearly all fail as others do
	for i := range failed {
		t := &failed[i]
		if t.Parent != "" || t.EndedAt.Before(since) {
			continue
		}
		message, known := alike[t.Message]
		if !known {
			message = view.Alike(t.Message)
			alike[t.Message] = message
		}
		key := cause{t.What(), t.Reason, message}
		n, counted := at[key]
		if !counted {
			n = len(groups)
			at[key] = n
			groups = append(groups, client.FailureGroup{Job: key.job, Planned: t.Schedule != "", Reason: t.Reason, Cause: t.Message, Last: t.ID, At: t.EndedAt})
		}
		groups[n].Tasks++
	}
	slices.SortStableFunc(groups, func(a, b client.FailureGroup) int { return cmp.Compare(plannedFirst(&a), plannedFirst(&b)) })
	return groups, partly, nil
}

func plannedFirst(f *client.FailureGroup) int {
	if f.Planned {
		return 0
	}
	return 1
}
