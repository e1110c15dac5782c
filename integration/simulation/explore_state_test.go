package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
)

// past is all that ever was in the log of a small world. A world is played again for each of its
// choices, so what is asked at every step is kept, not counted anew.
type past struct {
	all    []events.Record
	names  []string // of the records, by their places among those about the same
	said   []string // what a state says of them
	aged   []bool   // whether a state says how old they are
	first  uint64   // of what is left of them
	about  map[subject]int
	chains map[string][]int // the places of records, by what they are about
	told   map[task.ID]story
	done   map[task.ID]bool // of tasks: whether they have ended
}

// subject is what a record is about.
type subject struct {
	task task.ID
	node node.ID
}

func newPast() past {
	return past{about: map[subject]int{}, chains: map[string][]int{}, told: map[task.ID]story{}, done: map[task.ID]bool{}}
}

// everything is all that ever was in the log.
func (p *place) everything() []events.Record {
	ctx := context.Background()
	last, _ := p.mem.Last(ctx)
	if first, _ := p.mem.First(ctx); last >= first {
		p.first = first
	}
	if last > uint64(len(p.all)) {
		records := p.mem.All()
		for _, r := range records[len(p.all)-int(p.first-1):] {
			p.learn(r)
		}
	}
	return p.all
}

// learn adds a record.
func (p *past) learn(r events.Record) {
	about := subject{r.Fact.Task, r.Fact.Node}
	p.about[about]++
	p.all = append(p.all, r)
	p.names = append(p.names, short(about.task)+string(about.node)+"#"+strconv.Itoa(p.about[about]))
	said, aged := string(r.Fact.Type), false
	switch e := r.Fact.Event.(type) {
	case birth.KeyClaimed:
		said += short(e.Holder)
	case task.AttemptStarted:
		said += e.Session + p.nameOf(e.Offer) + fmt.Sprint(e.TookOver != nil)
		aged = true
	case task.Queued:
		said += p.nameOf(e.After)
	case task.Granted:
		for _, g := range e.Grants {
			said += short(g.Task) + p.nameOf(g.Turn)
		}
	case task.AttemptLate:
		said += p.nameOf(e.Epoch)
	case node.Registered:
		said += e.Session
		aged = true
	}
	p.said, p.aged = append(p.said, said), append(p.aged, aged)
	chain := string(r.Fact.Task) + string(r.Fact.Node) + r.Fact.Key
	p.chains[chain] = append(p.chains[chain], len(p.all)-1)
	if id := r.Fact.Task; !carries(&r) {
		p.told[id] = append(p.told[id], r)
		p.done[id] = ended(p.told[id]) > 0
	}
}

// nameOf names a message of a log by its place among those about the same.
func (p *past) nameOf(seq uint64) string {
	switch {
	case seq == 0:
		return "-"
	case seq > uint64(len(p.names)):
		return "?"
	}
	return p.names[seq-1]
}

// looked counts the records that a read looked at.
func (p *place) looked(c *call) (n int) {
	p.everything()
	for about, times := range p.about {
		if about.task == c.task && (c.task != "" || strings.HasSuffix(c.op, string(about.node))) {
			n += times
		}
	}
	return n
}

func (p *place) story(id task.ID) story {
	p.everything()
	return p.told[id]
}

// ended tells whether all tasks have.
func (p *place) ended() bool {
	p.everything()
	for i := range p.tasks {
		if !p.done[taskID(i+1)] {
			return false
		}
	}
	return true
}

// sight is what a resident has seen of the world: the end of a call.
type sight struct {
	of     *call
	fate   fate
	looked int       // how many records a read looked at
	got    string    // the offer that a pull got
	at     time.Time // zero where it does not count
}

// state hashes all that the future of the world depends on; in which order its lines come means
// nothing. Workers are alike: a world in which two of them have changed places is the same.
func (p *place) state() uint64 {
	var own, twins uint64
	alike := p.restarts == 0 && p.workers == 2 // else only the first may be killed
	p.lines(func(line []byte) {
		own += maphash.Bytes(seed, line)
		if alike {
			changePlaces(line)
			twins += maphash.Bytes(seed, line)
		}
	})
	if alike {
		return min(own, twins)
	}
	return own
}

var seed = maphash.MakeSeed()

// changePlaces has two workers change their names.
func changePlaces(line []byte) {
	for i := 1; i < len(line); i++ {
		if line[i-1] == 'n' && (line[i] == '1' || line[i] == '2') {
			line[i] ^= '1' ^ '2'
		}
	}
}

// lines gives the parts of the state to each, which may change the bytes.
func (p *place) lines(each func([]byte)) {
	p.everything()
	var b []byte
	text := func(s string) { b = append(append(b, ' '), s...) }
	number := func(n int) { b = strconv.AppendInt(append(b, ' '), int64(n), 10) }
	yes := func(is bool) { b = strconv.AppendBool(append(b, ' '), is) }
	ago := func(t time.Time) { number(int(min(p.now.Sub(t), ackWait))) } // all that is older is old
	line := func(what string, say func()) {
		b = append(b[:0], what...)
		say()
		each(b)
	}
	line("left", func() {
		for _, n := range []int{p.restarts, p.lost, p.blind, p.early, p.silences, p.drains, p.passes, int(p.first)} {
			number(n)
		}
	})
	for about, chain := range p.chains {
		line(about, func() {
			for _, i := range chain {
				if text(p.said[i]); p.aged[i] {
					ago(p.all[i].Stored)
				}
			}
		})
	}
	for i := range p.workers {
		id := node.ID("n" + strconv.Itoa(i+1))
		line("pulse", func() {
			pulse, _ := p.mem.Pulse(context.Background(), id)
			text(string(id))
			text(pulse.Beat.Session)
			ago(pulse.Stored)
			yes(pulse.RanOut)
			for _, epoch := range pulse.Beat.Runs {
				text(p.nameOf(epoch))
			}
		})
	}
	for i := range p.tasks {
		id := taskID(i + 1)
		if armed, _ := p.mem.Armed(context.Background(), []task.ID{id}); len(armed) > 0 {
			line("timer", func() {
				text(string(id))
				text(p.nameOf(armed[id].After))
				ago(armed[id].Due)
			})
		}
	}
	for _, l := range p.mem.Leases() {
		line("lease", func() {
			text(p.nameOf(l.Seq))
			number(l.Deliveries)
			number(int(l.Left))
		})
	}
	for _, r := range p.actors {
		line("actor", func() {
			text(r.name)
			for _, is := range []bool{r.dead, r.silent, r.claims, r.leaving} {
				yes(is)
			}
			if ago(r.beaten); r.pending != nil {
				text("before " + r.pending.op)
				text(string(r.pending.task))
				yes(r.pending.last != 0)
			}
			if strings.HasPrefix(r.name, "scheduler") {
				yes(p.news(r))
			}
			for _, s := range r.seen {
				text("saw " + s.of.op)
				text(string(s.of.task))
				number(int(s.fate))
				yes(s.of.err != nil)
				yes(errors.Is(s.of.err, events.ErrConflict))
				number(s.looked)
				text(s.got)
				ago(s.at)
			}
			if r.run != nil {
				text("runs")
				ago(r.run.began)
				ago(r.run.confirmed)
				ago(r.run.beaten)
				yes(r.run.waits)
			}
		})
	}
}
