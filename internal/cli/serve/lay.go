package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/cli/settings"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// Lay writes a log into a data directory that has none, with the output of its tasks, and returns
// the last fact. Sequences and times stay.
func Lay(dir string, layout streams.Layout, made time.Time, facts iter.Seq2[events.Record, error], output iter.Seq2[embed.Message, error]) (to view.Point, err error) {
	log, printed := embed.Stream{Created: made}, embed.Stream{Created: made, Messages: output}
	if log.Config, err = layout.Config(names.LogStream); err != nil {
		return to, err
	}
	if printed.Config, err = layout.Config(names.OutputStream); err != nil {
		return to, err
	}
	log.Messages = marked(func(yield func(embed.Message, error) bool) {
		for r, err := range facts {
			if err == nil {
				to = view.Point{Seq: r.Seq, At: r.Stored}
			}
			if !yield(embed.Message{Seq: r.Seq, At: r.Stored, Subject: request.SubjectOf(&r), Header: request.HeaderOf(&r), Body: r.Raw}, err) {
				return
			}
		}
	})
	return to, shared(embed.Fill(dir, log, printed))
}

// marked returns the messages of a log with a mark behind them.
func marked(log iter.Seq2[embed.Message, error]) iter.Seq2[embed.Message, error] {
	return func(yield func(embed.Message, error) bool) {
		var last embed.Message
		for m, err := range log {
			if last = m; !yield(m, err) {
				return
			}
		}
		if last.Seq == 0 {
			return // nothing to look through
		}
		subject, header := streams.LaidMark()
		yield(embed.Message{Seq: last.Seq + 1, At: last.At, Subject: subject, Header: header}, nil)
	}
}

// Import makes a data directory of a log that lay writes into it ([Lay]). Unless run says that it
// goes on at once, it starts nothing ([Commands.still]). The log is there when it is whole and still,
// or not at all. The error wraps [embed.ErrFilled] or [embed.ErrLocked].
func (a *Commands) Import(ctx context.Context, dir string, s settings.Values, reason string, run bool, lay func(dir string) (view.Point, error)) (to view.Point, is Stilled, err error) {
	if err := embed.Fill(dir); err != nil { // no streams: it only looks
		return to, is, shared(err)
	}
	unfinished := filepath.Join(dir, "importing")
	if err := os.RemoveAll(unfinished); err != nil {
		return to, is, err
	}
	defer os.RemoveAll(unfinished)
	if to, err = lay(unfinished); err == nil && !run {
		is, err = a.stillDir(ctx, unfinished, s, reason)
	}
	if err == nil {
		err = embed.Move(unfinished, dir)
	}
	return to, is, err
}

// ImportTo is [Commands.Import] into a NATS server that holds no Millrace. The error wraps
// [streams.ErrThere] if it does.
func (a *Commands) ImportTo(ctx context.Context, t client.Target, s settings.Values, reason string, run bool, lay func(dir string) (view.Point, error)) (to view.Point, is Stilled, err error) {
	dir, err := os.MkdirTemp("", "millrace-import-")
	if err != nil {
		return to, is, err
	}
	defer os.RemoveAll(dir)
	if to, is, err = a.Import(ctx, dir, s, reason, run, lay); err != nil {
		return to, is, err
	}
	log := slog.New(slog.DiscardHandler)
	server, err := embed.Start(embed.Config{Dir: dir, Log: log})
	if err != nil {
		return to, is, err
	}
	defer server.Stop()
	from, err := dialEmbedded(server, log)("millrace import")
	if err != nil {
		return to, is, err
	}
	defer from.Close()
	nc, err := a.dialTo(t, s.Ping)("millrace import")
	if err != nil {
		return to, is, err
	}
	defer nc.Close()
	return to, is, streams.Carry(ctx, from, nc, names.LogStream)
}

// RestoreDir makes a data directory of a backup. It is there when it is whole, or not at all. The error
// wraps [embed.ErrFilled] or [embed.ErrLocked].
func (a *Commands) RestoreDir(ctx context.Context, dir string, s settings.Values, restore func(context.Context, *nats.Conn) error) error {
	_, _, err := a.Import(ctx, dir, s, "", true, func(dir string) (to view.Point, err error) {
		log := slog.New(slog.DiscardHandler)
		server, err := embed.Start(embed.Config{Dir: dir, Log: log})
		if err != nil {
			return to, err
		}
		defer server.Stop()
		nc, err := dialEmbedded(server, log)(restoring)
		if err != nil {
			return to, err
		}
		defer nc.Close()
		return to, restore(ctx, nc)
	})
	return err
}

// restoring is the name of the connection.
const restoring = "millrace restore"

// RestoreTo makes the streams of a backup on a NATS server. A missing right ends it at once.
func (a *Commands) RestoreTo(ctx context.Context, t client.Target, s settings.Values, restore func(context.Context, *nats.Conn) error) error {
	nc, err := a.dialTo(t, s.Ping)(restoring)
	if err != nil {
		return a.unusable(t, err)
	}
	defer nc.Close()
	denials := request.WatchDenials(nc)
	defer denials.Close()
	ctx, done := denials.Guard(ctx, "")
	return done(restore(ctx, nc))
}

// Stilled says what was stopped so that a log starts nothing.
type Stilled struct {
	Schedules, Queues, Nodes []string
}

// Words says it, and how it goes on.
func (s *Stilled) Words() string {
	var all []string
	for _, part := range []struct {
		names     []string
		is, again string
	}{
		{s.Schedules, "paused schedules", "schedule resume"}, {s.Queues, "paused queues", "queue resume"}, {s.Nodes, "drained nodes", "node undrain"},
	} {
		if len(part.names) > 0 {
			all = append(all, fmt.Sprintf("%s (`millrace %s`): %s", part.is, part.again, listed(part.names)))
		}
	}
	return strings.Join(all, "; ")
}

// listed names a few of several names.
func listed(names []string) string {
	const few = 5
	if n := len(names) - few; n > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), n)
	}
	return strings.Join(names, ", ")
}

// stillDir is still for the log in a data directory.
func (a *Commands) stillDir(ctx context.Context, dir string, s settings.Values, reason string) (is Stilled, err error) {
	log := slog.New(slog.DiscardHandler)
	server, err := embed.Start(embed.Config{Dir: dir, Log: log})
	if err != nil {
		return is, err
	}
	defer server.Stop()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := a.newParts(ctx, dialEmbedded(server, log), s, settings.AtOnce, log)
	defer p.close()
	store, _, err := p.store("millrace import", p.making)
	if err == nil {
		is, err = a.still(ctx, client.New(store, ""), reason)
	}
	stop()
	if ended := p.wait(); err == nil {
		err = ended
	}
	return is, err
}

// still sees to it that a log starts nothing, whatever servers and workers go on from there: by
// facts, it pauses every schedule and every queue that a fact names, and drains every node, because a
// pause does not hold back tasks for a node by name. So nothing starts until an operator says so.
func (a *Commands) still(ctx context.Context, c *client.Client, reason string) (is Stilled, err error) {
	queues, nodes, pinned := map[string]bool{placement.DefaultQueue: true}, map[node.ID]bool{}, map[task.ID]task.Task{}
	err = a.Span(ctx, c, 0, 0, func(r *events.Record) error {
		if r.Kind == events.KindNode && r.Fact.Node != "" {
			nodes[r.Fact.Node] = true
		}
		queuesIn(r.Raw, queues)
		t, known := pinned[r.Fact.Task]
		if birth, ok := r.Fact.Event.(task.Submitted); ok {
			_, own := birth.Route.Node()
			t.ID, known = r.Fact.Task, known || own
		}
		if !known || !r.IsFact() || r.Err != nil {
			return nil
		}
		if t.Apply(r.Task()); t.State.Terminal() {
			delete(pinned, t.ID)
		} else {
			pinned[t.ID] = t
		}
		return nil
	})
	if err != nil {
		return is, err
	}
	if err := expect(ctx, c, pinned, nodes, reason); err != nil {
		return is, err
	}
	schedules, err := c.Schedules(ctx)
	if err != nil {
		return is, err
	}
	for _, s := range schedules {
		changed, err := c.PauseSchedule(ctx, s.Name, reason)
		if err != nil {
			return is, err
		}
		if changed {
			is.Schedules = append(is.Schedules, s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q, err := c.Queue(ctx, name)
		if err != nil {
			return is, err
		}
		// One whose pause ends by itself would begin.
		if p := q.PausedAt(c.Now()); p != nil && p.Until.IsZero() {
			continue
		}
		if _, err := c.PauseQueue(ctx, name, 0, reason); err != nil {
			return is, err
		}
		is.Queues = append(is.Queues, name)
	}
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		n, err := c.Node(ctx, id)
		if err != nil {
			return is, err
		}
		if n.State == node.Retired || n.Standing.Order != node.OrderServe {
			continue
		}
		if _, err := c.OrderNode(ctx, id, node.OrderDrain, reason, 0); err != nil {
			return is, err
		}
		is.Nodes = append(is.Nodes, string(id))
	}
	return is, nil
}

// expect registers the nodes for which open tasks wait and that no worker has, so that they can be
// drained before one comes.
func expect(ctx context.Context, c *client.Client, pinned map[task.ID]task.Task, nodes map[node.ID]bool, reason string) error {
	for _, t := range pinned {
		name, own := t.Route.Node()
		id := node.ID(name)
		if !own {
			continue
		}
		if err := c.ExpectNode(ctx, id, reason); err != nil {
			return err
		}
		nodes[id] = true
	}
	return nil
}

// naming matches each field of a fact, or of a definition in one, that names queues or a route.
var naming = regexp.MustCompile(`"(queue|queues|route|from|to)":("(?:[^"\\]|\\.)*"|\[[^\]]*\])`)

// queuesIn adds the queues that a message names. It finds too many rather than too few: a name that
// no queue has is paused in vain.
func queuesIn(raw []byte, all map[string]bool) {
	for _, found := range naming.FindAllSubmatch(raw, -1) {
		var names []string
		if found[2][0] == '"' {
			names = append(names, "")
			_ = json.Unmarshal(found[2], &names[0])
		} else if json.Unmarshal(found[2], &names) != nil {
			continue
		}
		for _, name := range names {
			if found[1][0] != 'q' {
				name = placement.Route(name).Queue()
			}
			if value.ValidName("queue", name) == nil {
				all[name] = true
			}
		}
	}
}
