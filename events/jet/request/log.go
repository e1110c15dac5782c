package request

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// Log reads the log over a connection.
type Log struct{ *Link }

// Task implements [events.Reader]. It returns every birth and offer, also several births of one id:
// only the whole history decides which of them counts.
func (s *Log) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	records, err := s.ReadSubject(ctx, names.ChainPrefix+string(id), 0)
	if err != nil {
		return nil, err
	}
	return s.beside(ctx, id, 0, records)
}

// beside adds to what was read of a task's chain what lies elsewhere, after a sequence.
func (s *Log) beside(ctx context.Context, id task.ID, after uint64, chain []events.Record) ([]events.Record, error) {
	places := []string{names.QueuePrefix + "*.*." + string(id), names.QueuePrefix + "*.*." + names.FiredToken + "." + string(id), names.HoldPrefix + string(id)}
	if events.CarriedIn(chain) {
		places = append(places, names.CarriedPrefix+string(id))
	}
	var g errgroup.Group
	found := make([][]events.Record, len(places))
	for i, subject := range places {
		g.Go(func() (err error) { found[i], err = s.readFew(ctx, subject, after); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	records := slices.Concat(append(found, chain)...)
	slices.SortFunc(records, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return records, nil
}

// Rest implements [events.Resumer].
func (s *Log) Rest(ctx context.Context, id task.ID, from uint64) ([]events.Record, error) {
	subject := names.ChainPrefix + string(id)
	end, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
	if err != nil || !found || end.Seq < from {
		return nil, ReadError(subject, err)
	}
	chain := []events.Record{end}
	if end.Seq > from {
		if chain, err = s.readTo(ctx, subject, from-1, end); err != nil {
			return nil, err
		}
	}
	if chain[0].Seq != from || events.CarriedIn(chain) {
		return nil, nil
	}
	return s.beside(ctx, id, from, chain)
}

// fewFacts is how many facts of a chain are read one by one.
const fewFacts = 4

// Beginning implements [events.Beginner]. What any replica has of the log is its beginning.
func (s *Log) Beginning(ctx context.Context, id task.ID, to uint64) ([]events.Record, error) {
	records := make([]events.Record, 0, 2)
	for from := uint64(1); from <= to && len(records) < fewFacts; from = records[len(records)-1].Seq + 1 {
		var r events.Record
		if !s.anywhere(ctx, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":"%s%s"}`, from, names.ChainPrefix, id), &r) {
			break
		}
		if records = append(records, r); r.Seq == to {
			return records, nil
		}
	}
	return nil, ctx.Err()
}

// readFew is ReadSubject for subjects with wildcards that rarely have more than one message: it makes two
// small requests, for the last one and the first. The records are in no order.
func (s *Log) readFew(ctx context.Context, subject string, after uint64) ([]events.Record, error) {
	end, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
	if err != nil || !found || end.Seq <= after {
		return nil, ReadError(subject, err)
	}
	if after == 0 { // the server knows where a subject begins
		first, found, err := s.LeaderGet(ctx, map[string]any{"seq": 1, "next_by_subj": subject})
		switch {
		case err != nil || !found:
			return nil, ReadError(subject, err)
		case first.Seq >= end.Seq:
			return []events.Record{first}, nil
		}
	}
	return s.readPlaces(ctx, subject, after, end)
}

// mostPlaces is how many subjects the server names at once.
const mostPlaces = 1024

// readPlaces reads each subject that a subject with wildcards matches, one after the other. A batch of the latter would not do:
// in a log of many subjects the server would look for its next message in all that follows, up to the end
// of the log, and serve nobody else on this connection meanwhile.
func (s *Log) readPlaces(ctx context.Context, subject string, after uint64, end events.Record) (records []events.Record, err error) {
	last, err := s.readSome(ctx, mostPlaces, map[string]any{"multi_last": []string{subject}})
	if err != nil || !slices.ContainsFunc(last, func(r events.Record) bool { return r.Seq >= end.Seq }) {
		// A follower that has not caught up, or they are too many: the leader has them, one by one.
		return s.readRest(ctx, subject, nil, after+1, end)
	}
	for _, r := range last {
		if r.Seq <= after {
			continue
		}
		of, err := s.readTo(ctx, r.Place, after, r)
		if err != nil {
			return nil, err
		}
		records = append(records, of...)
	}
	return records, nil
}

// Node implements [events.Reader].
func (s *Log) Node(ctx context.Context, id node.ID, from uint64) ([]events.Record, error) {
	end, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": names.NodePrefix + string(id)})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", id, err)
	case from > 0 && end.Seq < from: // also if there is none
		return nil, noFactAt(id, from)
	case !found:
		return nil, nil
	case from == 0:
		return s.readTo(ctx, names.NodePrefix+string(id), 0, end)
	case end.Seq == from:
		return []events.Record{end}, nil
	}
	records, err := s.readTo(ctx, names.NodePrefix+string(id), from-1, end)
	if err != nil {
		return nil, err
	}
	if records[0].Seq == from {
		return records, nil
	}
	// The log may have forgotten that fact: then a later one says all.
	carried := slices.IndexFunc(records, func(r events.Record) bool { return r.Fact.Type == events.NodeCarried })
	if carried < 0 {
		return nil, noFactAt(id, from)
	}
	return records[carried:], nil
}

// noFactAt is the error that a node's chain has no fact where it had one.
func noFactAt(id node.ID, seq uint64) error {
	return fmt.Errorf("node %s has no fact at %d any more: %w", id, seq, node.ErrUnknown)
}

// Queue implements [events.Reader].
func (s *Log) Queue(ctx context.Context, name string) ([]events.Record, error) {
	return s.ReadSubject(ctx, names.StatePrefix+name, 0)
}

// AllOf reads the log's facts about all nodes, all queues, all definitions or the horizon, in its order.
func (s *Log) AllOf(ctx context.Context, kind events.Kind) ([]events.Record, error) {
	switch kind {
	case events.KindNode:
		return s.ReadSubject(ctx, names.NodePrefix+">", 0)
	case events.KindQueue:
		return s.ReadSubject(ctx, names.StatePrefix+">", 0)
	case events.KindDefinition:
		return s.ReadSubject(ctx, names.DefPrefix+">", 0)
	case events.KindHorizon:
		return s.ReadSubject(ctx, names.ChainSubject(&events.Fact{Event: task.HorizonPurged{}}), 0)
	}
	return nil, fmt.Errorf("read all of one kind: kind %v is not read by itself", kind)
}

// Latest implements [events.Reader].
func (s *Log) Latest(ctx context.Context, about events.Fact) (last events.Record, end uint64, err error) {
	subject := names.ChainSubject(&about)
	last, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
	if err == nil && found {
		if end = last.Seq; !last.Readable() {
			last, err = s.readableBefore(ctx, subject, last)
		}
	}
	if err != nil {
		return events.Record{}, 0, fmt.Errorf("last fact about %s: %w", about.About(), err)
	}
	return last, end, nil
}

// readableBefore returns the last readable record of a subject up to its last one.
func (s *Log) readableBefore(ctx context.Context, subject string, last events.Record) (events.Record, error) {
	records, err := s.readTo(ctx, subject, 0, last)
	return events.LastReadable(records), err
}

// Horizon reads the facts about the log's horizon, in order.
func (s *Log) Horizon(ctx context.Context) ([]events.Record, error) {
	return s.ReadSubject(ctx, names.HorizonSubject, 0)
}

// BreakerFacts reads the facts about the breaker of a job, in the order of the log.
func (s *Log) BreakerFacts(ctx context.Context, job string) ([]events.Record, error) {
	if err := value.ValidName("job", job); err != nil {
		return nil, err
	}
	return s.ReadSubject(ctx, names.BreakPrefix+job, 0)
}

// Last implements [events.Follower]. A message that was removed since, such as a timer, does not
// count: no reader will ever see it.
func (s *Log) Last(ctx context.Context) (uint64, error) {
	last, _, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": ">"})
	if err != nil {
		return 0, fmt.Errorf("end of the log: %w", err)
	}
	return last.Seq, nil
}

// LastAt returns the last message before the first one that the log stored after a time; false if
// the log begins later.
func (s *Log) LastAt(ctx context.Context, at time.Time) (events.Record, bool, error) {
	// The leader, for a replica that lags mistakes its own end for the log's; and not a batch, before
	// which the server counts all subjects of the log.
	later, found, err := s.LeaderGet(ctx, map[string]any{"start_time": at.Add(1).UTC(), "next_by_subj": ">"})
	if err != nil {
		return events.Record{}, false, fmt.Errorf("find %s in the log: %w", at.Format(time.RFC3339Nano), err)
	}
	if found {
		return s.LastUpTo(ctx, later.Seq-1)
	}
	last, err := s.Last(ctx)
	for err == nil && last > 0 {
		r, found, failed := s.LastUpTo(ctx, last)
		if !found || failed != nil || !r.Stored.After(at) {
			return r, found, failed
		}
		last = r.Seq - 1
	}
	return events.Record{}, false, err
}

// LastUpTo returns the last message of the log up to a sequence; false if the log begins later.
func (s *Log) LastUpTo(ctx context.Context, seq uint64) (events.Record, bool, error) {
	if seq == 0 {
		return events.Record{}, false, nil
	}
	r, found, err := s.Message(ctx, seq)
	if found || err != nil {
		return r, found, err
	}
	begin, found, err := s.LeaderGet(ctx, map[string]any{"seq": 1, "next_by_subj": ">"})
	for seq--; found && err == nil && seq >= begin.Seq; seq-- { // few are removed
		if r, there, err := s.Message(ctx, seq); there || err != nil {
			return r, there, err
		}
	}
	return events.Record{}, false, err
}

// End returns the sequence of the last message that the log stored, removed or not.
func (s *Log) End(ctx context.Context) (uint64, error) {
	log, err := s.JS.Stream(ctx, names.LogStream)
	if err != nil {
		return 0, fmt.Errorf("end of the log: %w", err)
	}
	return log.CachedInfo().State.LastSeq, nil
}

// ReadSubject reads the records of a subject, which may have wildcards, after a sequence. It
// includes everything that was acknowledged before the call: the leader says where the subject
// ends, and only then is a batch read, which a follower may answer.
func (s *Log) ReadSubject(ctx context.Context, subject string, after uint64) ([]events.Record, error) {
	end, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	if !found || end.Seq <= after {
		return nil, nil
	}
	return s.readTo(ctx, subject, after, end)
}

// readTo reads the records of a subject after a sequence, up to the record end.
func (s *Log) readTo(ctx context.Context, subject string, after uint64, end events.Record) ([]events.Record, error) {
	var records []events.Record
	for from := after + 1; ; {
		batch, err := s.ReadBatch(ctx, subject, from)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", subject, err)
		}
		records = append(records, batch...)
		n := len(records)
		switch {
		case n > 0 && records[n-1].Seq >= end.Seq:
			return records, nil
		case len(batch) < MaxBatch:
			// A follower that has not caught up: the leader has the rest.
			return s.readRest(ctx, subject, records, from, end)
		}
		from = records[n-1].Seq + 1
	}
}

// readRest reads, one by one from the leader, what a follower did not have.
func (s *Log) readRest(ctx context.Context, subject string, records []events.Record, from uint64, end events.Record) ([]events.Record, error) {
	if n := len(records); n > 0 {
		from = records[n-1].Seq + 1
	}
	for from < end.Seq {
		next, found, err := s.LeaderGet(ctx, map[string]any{"seq": from, "next_by_subj": subject})
		if err != nil {
			return nil, fmt.Errorf("read %s from %d: %w", subject, from, err)
		}
		if !found || next.Seq >= end.Seq {
			break
		}
		records = append(records, next)
		from = next.Seq + 1
	}
	return append(records, end), nil
}

// LeaderGet reads one message of the log.
func (s *Log) LeaderGet(ctx context.Context, request map[string]any) (events.Record, bool, error) {
	m, found, err := s.LeaderGetFrom(ctx, names.LogStream, request)
	if err != nil || !found {
		return events.Record{}, false, err
	}
	var r events.Record
	readRecord(&r, m.Subject, m.Seq, m.Time, cameStored(m.Header), m.Data)
	return r, true, nil
}

// ReadBatch reads messages of a subject by one request with many answers.
func (s *Log) ReadBatch(ctx context.Context, subject string, from uint64) ([]events.Record, error) {
	return s.readSome(ctx, MaxBatch, map[string]any{"batch": MaxBatch, "seq": from, "next_by_subj": subject})
}

// maxPage is roughly how many bytes the records of a page have.
const maxPage = 4 << 20

// Page reads records from a sequence on: at most most, and about 4 MiB. There may be more after
// them; there are none only if the log ends. It leaves nothing on the server.
func (s *Log) Page(ctx context.Context, from uint64, most int) ([]events.Record, error) {
	most, from = min(most, MaxBatch), max(from, 1)
	records, err := s.readSome(ctx, most, map[string]any{"batch": most, "seq": from, "next_by_subj": ">", "max_bytes": maxPage})
	if err != nil || len(records) > 0 {
		return records, err
	}
	// A follower that has not caught up: the leader knows.
	next, found, err := s.LeaderGet(ctx, map[string]any{"seq": from, "next_by_subj": ">"})
	if err != nil || !found {
		return nil, err
	}
	return []events.Record{next}, nil
}

func (s *Log) readSome(ctx context.Context, most int, request map[string]any) ([]events.Record, error) {
	found, err := s.BatchGet(ctx, names.LogStream, most, request)
	if err != nil {
		return nil, err
	}
	records := make([]events.Record, len(found))
	for i, m := range found {
		if err := readDirect(&records[i], m); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// readDirect decodes a message from a direct get in place. r must be zero.
func readDirect(r *events.Record, m *nats.Msg) error {
	seq, err := SequenceOf(m)
	if err != nil {
		return err
	}
	stored, _ := time.Parse(time.RFC3339Nano, Added(m, jetstream.TimeStampHeaer)) // only shown
	readRecord(r, Added(m, jetstream.SubjectHeader), seq, stored, cameWith(m.Header, 1), m.Data)
	return nil
}

// Message reads one message of the log; the second result is false if it does not exist.
func (s *Log) Message(ctx context.Context, seq uint64) (events.Record, bool, error) {
	r, found, err := s.LeaderGet(ctx, map[string]any{"seq": seq})
	if err != nil {
		return r, false, fmt.Errorf("read message %d: %w", seq, err)
	}
	return r, found, nil
}

// messagesAtOnce is how many messages are read concurrently.
const messagesAtOnce = 16

// Messages reads the messages at these sequences that exist, in no particular order. It asks for each:
// before the server sends a batch it counts what follows, which costs more than some hundred messages.
func (s *Log) Messages(ctx context.Context, seqs []uint64) ([]events.Record, error) {
	records := make([]events.Record, len(seqs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(messagesAtOnce)
	for i, seq := range seqs {
		g.Go(func() (err error) {
			if !s.anywhere(ctx, fmt.Appendf(nil, `{"seq":%d}`, seq), &records[i]) || records[i].Seq != seq {
				records[i], _, err = s.Message(ctx, seq)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return slices.DeleteFunc(records, func(r events.Record) bool { return r.Seq == 0 }), nil
}

// anywhere reads a message from any replica, at half the price of [Log.LeaderGet]: what is stored at a
// sequence never changes. It is false if that replica does not have the message, or the answer cannot
// be told from an error of the server, which a message can imitate by its headers.
func (s *Log) anywhere(ctx context.Context, request []byte, r *events.Record) bool {
	ctx, cancel := s.Within(ctx, ReadTry)
	defer cancel()
	m, err := s.Request(ctx, names.APIDirect+names.LogStream, request)
	return err == nil && readDirect(r, m) == nil
}

// Dismissal reads the fact that dismissed a message; false if there is none.
func (s *Log) Dismissal(ctx context.Context, seq uint64) (events.Record, bool, error) {
	r, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": names.DeadPrefix + strconv.FormatUint(seq, 10)})
	if err != nil {
		return r, false, fmt.Errorf("read what became of message %d: %w", seq, err)
	}
	return r, found && r.Err == nil, nil
}
