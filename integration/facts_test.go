package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/client"
	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// connect opens the log of the place's server; it is closed with the test.
func (p *place) connect() *client.Client {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Server: p.url, Name: "integration test"})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(c.Close)
	return c
}

// submit makes a task of a shell line and of flags of `millrace run`.
func (p *place) submit(line string, flags ...string) task.ID {
	p.Helper()
	return task.ID(p.run(append([]string{"run", "--shell", line}, flags...)...))
}

// state reads a task from the log.
func (p *place) state(c *client.Client, id task.ID) task.Task {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	t, err := c.Task(ctx, id)
	if err != nil {
		p.Fatal(err)
	}
	return t
}

// await waits until a task is in one of some states.
func (p *place) await(c *client.Client, id task.ID, states ...task.State) task.Task {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	reached := false
	t, err := c.Watch(ctx, id, func(t task.Task) {
		if slices.Contains(states, t.State) {
			reached = true
			cancel()
		}
	})
	if reached {
		return p.state(c, id)
	}
	if err != nil {
		p.Fatalf("task %s is %s, waited for %v: %v", id, t.State, states, err)
	}
	p.Fatalf("task %s ended as %s (%s: %s), waited for %v\n%s", id, t.State, t.Reason, t.Message, states, story(p.history(c, id)))
	return t
}

// history reads the facts of a task.
func (p *place) history(c *client.Client, id task.ID) []events.Record {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	records, err := c.History(ctx, id)
	if err != nil {
		p.Fatal(err)
	}
	return records
}

// node reads a node from the log.
func (p *place) node(c *client.Client, id node.ID) node.Node {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	records, err := c.Store().Node(ctx, id, 0)
	if err != nil {
		p.Fatal(err)
	}
	return events.FoldNode(id, records)
}

// story tells facts as they stand in the log.
func story(records []events.Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "#%d %s %s\n", r.Seq, r.Stored.Format(time.StampMilli), r.Raw)
	}
	return b.String()
}

// types are the types of facts, in order.
func types(records []events.Record) []events.Type {
	var list []events.Type
	for i := range records {
		list = append(list, records[i].Fact.Type)
	}
	return list
}

// count is how many facts have a type.
func count(records []events.Record, t events.Type) int {
	n := 0
	for i := range records {
		if records[i].Fact.Type == t {
			n++
		}
	}
	return n
}

// find returns the only fact with a type.
func (p *place) find(records []events.Record, t events.Type) events.Record {
	p.Helper()
	if count(records, t) != 1 {
		p.Fatalf("want one %s among %v", t, types(records))
	}
	return records[slices.IndexFunc(records, func(r events.Record) bool { return r.Fact.Type == t })]
}

// readLog reads the whole log by task.
func (p *place) readLog(c *client.Client) map[task.ID][]events.Record {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	last, err := c.Last(ctx)
	if err != nil {
		p.Fatal(err)
	}
	feed, err := c.Store().Follow(ctx, 1)
	if err != nil {
		p.Fatal(err)
	}
	defer feed.Close()
	all := map[task.ID][]events.Record{}
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			p.Fatal(err)
		}
		for _, r := range batch {
			if id := r.Fact.Task; id != "" && r.Kind != events.KindOther {
				all[id] = append(all[id], r)
			}
		}
		if batch[len(batch)-1].Seq >= last {
			return all
		}
	}
}

// judge reads the log and checks what must be true of every task in it,
// whatever was killed: it has ended, as wanted; nothing was accepted from an
// attempt that was not the task's own at that moment; and one result at most.
// What millrace itself says of the log must agree: a warning is good enough,
// for a test may have no server that answers for the read model.
func (p *place) judge(c *client.Client, want map[task.ID]task.State) {
	p.Helper()
	all := p.readLog(c)
	for id, state := range want {
		records := all[id]
		t := events.FoldTask(id, records)
		if t.State != state {
			p.Errorf("task %s is %s (%s), want %s\n%s", id, t.State, t.Message, state, story(records))
		}
		if state == task.Finished && count(records, events.AttemptFinished) != 1 {
			p.Errorf("task %s has not one result: %v", id, types(records))
		}
	}
	for id, records := range all {
		if _, ok := want[id]; !ok {
			p.Errorf("nobody has submitted task %s: %v", id, types(records))
		}
		p.judgeEpochs(id, records)
	}
	if r := p.try("verify", "--settled"); r.code > 1 {
		p.Errorf("millrace verify --settled ends with code %d\n%s\n%s", r.code, r.out, r.errs)
	}
}

// judgeEpochs checks that all reports on a chain are of the attempt that was
// started last.
func (p *place) judgeEpochs(id task.ID, records []events.Record) {
	p.Helper()
	var epoch uint64
	for _, r := range records {
		var said uint64
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			epoch = r.Seq
			continue
		case task.AttemptFinished:
			said = e.Epoch
		case task.AttemptFailed:
			said = e.Epoch
		case task.AttemptReleased:
			said = e.Epoch
		case task.AttemptLost:
			said = e.Epoch
		default:
			continue
		}
		if said != epoch || epoch == 0 {
			p.Errorf("task %s: %s of epoch %d was accepted under epoch %d", id, r.Fact.Type, said, epoch)
		}
		epoch = 0 // what is accepted ends the attempt
	}
}
