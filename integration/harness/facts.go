package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Connect opens the log of the place's server; it is closed with the test.
func (p *Place) Connect() *client.Client {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), Patience)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Server: p.URL, Name: "integration test"})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(c.Close)
	return c
}

// Submit makes a task of a shell line and of flags of `millrace run`.
func (p *Place) Submit(line string, flags ...string) task.ID {
	p.Helper()
	return task.ID(p.Run(append([]string{"run", "--shell", line}, flags...)...))
}

// State reads a task from the log.
func (p *Place) State(c *client.Client, id task.ID) task.Task {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), Patience)
	defer cancel()
	t, err := c.Task(ctx, id)
	if err != nil {
		p.Fatal(err)
	}
	return t
}

// Await waits until a task is in one of some states.
func (p *Place) Await(c *client.Client, id task.ID, states ...task.State) task.Task {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), Patience)
	defer cancel()
	reached := false
	t, err := c.Watch(ctx, id, func(t task.Task) {
		if slices.Contains(states, t.State) {
			reached = true
			cancel()
		}
	})
	if reached {
		return p.State(c, id)
	}
	if err != nil {
		p.Fatalf("task %s is %s, waited for %v: %v", id, t.State, states, err)
	}
	p.Fatalf("task %s ended as %s (%s: %s), waited for %v\n%s", id, t.State, t.Reason, t.Message, states, Story(p.History(c, id)))
	return t
}

// History reads the facts of a task.
func (p *Place) History(c *client.Client, id task.ID) []events.Record {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), Patience)
	defer cancel()
	records, err := c.History(ctx, id)
	if err != nil {
		p.Fatal(err)
	}
	return records
}

// Node reads a node from the log.
func (p *Place) Node(c *client.Client, id node.ID) node.Node {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), Patience)
	defer cancel()
	records, err := c.Store().Node(ctx, id, 0)
	if err != nil {
		p.Fatal(err)
	}
	return events.FoldNode(id, records)
}

// Story writes facts as the log has them, a line each.
func Story(records []events.Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "#%d %s %s\n", r.Seq, r.Stored.Format(time.StampMilli), r.Raw)
	}
	return b.String()
}

// Types are the types of facts, in order.
func Types(records []events.Record) []events.Type {
	var list []events.Type
	for i := range records {
		list = append(list, records[i].Fact.Type)
	}
	return list
}

// Count is how many facts have a type.
func Count(records []events.Record, t events.Type) int {
	n := 0
	for i := range records {
		if records[i].Fact.Type == t {
			n++
		}
	}
	return n
}

// Find returns the only fact with a type.
func (p *Place) Find(records []events.Record, t events.Type) events.Record {
	p.Helper()
	if Count(records, t) != 1 {
		p.Fatalf("want one %s among %v", t, Types(records))
	}
	return records[slices.IndexFunc(records, func(r events.Record) bool { return r.Fact.Type == t })]
}

// ReadLog reads the whole log by task.
func (p *Place) ReadLog(c *client.Client) map[task.ID][]events.Record {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), Patience)
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

// Judge reads the log and checks what must be true of every task in it, whatever was killed: it has
// ended in the wanted state; no result was accepted from an attempt that was not the task's own at
// that moment; and at most one result was accepted. The verification of millrace itself must agree.
// A warning is good enough, because a test may have no server that answers for the read model.
func (p *Place) Judge(c *client.Client, want map[task.ID]task.State) {
	p.Helper()
	all := p.ReadLog(c)
	for id, state := range want {
		records := all[id]
		t := events.FoldTask(id, records)
		if t.State != state {
			p.Errorf("task %s is %s (%s), want %s\n%s", id, t.State, t.Message, state, Story(records))
		}
		if state == task.Finished && Count(records, events.AttemptFinished) != 1 {
			p.Errorf("task %s has not one result: %v", id, Types(records))
		}
	}
	for id, records := range all {
		if _, ok := want[id]; !ok {
			p.Errorf("nobody has submitted task %s: %v", id, Types(records))
		}
		p.judgeEpochs(id, records)
	}
	if r := p.Try("verify", "--settled"); r.Code > 1 {
		p.Errorf("millrace verify --settled ends with code %d\n%s\n%s", r.Code, r.Out, r.Errs)
	}
}

// judgeEpochs checks that all reports on a chain are of the attempt that was
// started last.
func (p *Place) judgeEpochs(id task.ID, records []events.Record) {
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
		case task.AttemptParked:
			said = e.Epoch
		default:
			continue
		}
		if said != epoch || epoch == 0 {
			p.Errorf("task %s: %s of epoch %d was accepted under epoch %d", id, r.Fact.Type, said, epoch)
		}
		epoch = 0 // an accepted end closes the attempt
	}
}

// SubmitAs submits a task that no flag of `millrace run` can express.
func (p *Place) SubmitAs(c *client.Client, s birth.Submission) task.ID {
	p.Helper()
	r, err := c.Submit(p.Context(), s)
	if err != nil {
		p.Fatal(err)
	}
	return r.ID
}

// Ask sends a request to the service as the nats command line does, and decodes
// the answer.
func Ask[T any](p *Place, nc *nats.Conn, subject, request string) T {
	p.Helper()
	var answer T
	reply, err := nc.Request(subject, []byte(request), Patience)
	if err != nil {
		p.Fatalf("%s %s: %v", subject, request, err)
	}
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != "" {
		p.Fatalf("%s %s: %s %s", subject, request, code, reply.Header.Get(micro.ErrorHeader))
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		p.Fatalf("%s: %v in %s", subject, err, reply.Data)
	}
	return answer
}
