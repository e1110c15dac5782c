package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
)

// Subjects are the few that are no tasks: nodes, queues and definitions. The table of subjects has each
// as it is now; that of versions has it as it was after each of its facts, and so tells of any moment
// without the log.

// writeSubjects writes what the facts about subjects have made of them.
func (f *fold) writeSubjects(ctx context.Context, records []events.Record) error {
	var changed map[view.Ref]view.Item
	for i := range records {
		r := &records[i]
		switch r.Kind {
		case events.KindNode, events.KindQueue, events.KindDefinition:
		default:
			continue
		}
		ref := view.RefOf(r)
		if ref.Kind == 0 {
			continue
		}
		is, known := changed[ref]
		if !known {
			var err error
			if is, err = loadSubject(ctx, f.w.conn, ref); err != nil {
				return err
			}
			if changed == nil {
				changed = map[view.Ref]view.Item{}
			}
			changed[ref] = is
		}
		is.Add(ref, r)
		doc, err := subjectDoc(&is)
		if err == nil {
			err = f.w.exec(ctx, "INSERT INTO versions VALUES (?, ?, ?, ?)", int64(ref.Kind), ref.ID, int64(r.Seq), doc)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
	}
	for ref, is := range changed {
		if err := f.writeSubject(ctx, ref, &is); err != nil {
			return err
		}
	}
	return nil
}

// writeSubject writes a subject as it is now.
func (f *fold) writeSubject(ctx context.Context, ref view.Ref, is *view.Item) error {
	doc, err := subjectDoc(is)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	return f.w.exec(ctx, "INSERT OR REPLACE INTO subjects VALUES (?, ?, ?)", int64(ref.Kind), ref.ID, doc)
}

// loadSubject returns a subject as it is now, or one without facts.
func loadSubject(ctx context.Context, conn *sql.Conn, ref view.Ref) (view.Item, error) {
	return scanSubject(conn.QueryRowContext(ctx, "SELECT doc FROM subjects WHERE kind = ? AND id = ?", int64(ref.Kind), ref.ID), ref)
}

// scanSubject reads the document of a subject; it has no facts if there is none.
func scanSubject(row scanner, ref view.Ref) (view.Item, error) {
	var doc []byte
	is := view.Nothing(ref)
	err := row.Scan(&doc)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return is, nil
	case err == nil:
		err = readSubject(doc, &is)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", ref, err)
	}
	return is, err
}

// subjectDoc is the document of a subject.
func subjectDoc(is *view.Item) (string, error) {
	var doc []byte
	var err error
	switch {
	case is.Node != nil:
		doc, err = nodeForm.Append(nil, is.Node)
	case is.Queue != nil:
		doc, err = queueForm.Append(nil, is.Queue)
	case is.Definition != nil:
		doc, err = definitionForm.Append(nil, is.Definition)
	}
	return string(doc), err
}

// readSubject reads the document of a subject of the kind that is set in it.
func readSubject(doc []byte, is *view.Item) error {
	switch {
	case is.Node != nil:
		return nodeForm.Read(doc, is.Node)
	case is.Queue != nil:
		return queueForm.Read(doc, is.Queue)
	default:
		return definitionForm.Read(doc, is.Definition)
	}
}

// Nodes returns all nodes, by id.
func (s *Store) Nodes(ctx context.Context) (nodes []node.Node, at uint64, err error) {
	page := view.Page{}
	err = s.view(ctx, "list nodes", func(tx *sql.Tx, seq uint64) error {
		at = seq
		return addSubjects(ctx, tx, view.Query{Kind: view.Nodes}, 0, &page)
	})
	return page.Nodes, at, err
}

// SaidOfQueues returns the queues that have facts, by name.
func (s *Store) SaidOfQueues(ctx context.Context) ([]queue.Queue, error) {
	page := view.Page{}
	err := s.view(ctx, "list what was said of queues", func(tx *sql.Tx, _ uint64) error {
		return addSubjects(ctx, tx, view.Query{Kind: view.Queues}, 0, &page)
	})
	return page.Queues, err
}

// addSubjects adds the nodes, queues or definitions of a query to a page, as they were at a sequence; 0
// is now.
func addSubjects(ctx context.Context, tx *sql.Tx, q view.Query, at uint64, page *view.Page) error {
	doc := "doc"
	var args []any
	if at > 0 {
		doc = "(SELECT doc FROM versions AS v WHERE v.kind = s.kind AND v.id = s.id AND v.seq <= ? ORDER BY v.seq DESC LIMIT 1)"
		args = append(args, int64(at))
	}
	text := "SELECT id, " + doc + " FROM subjects AS s WHERE kind = ?"
	args = append(args, int64(q.Kind))
	if q.Of != "" {
		text += " AND id >= ? AND id < ?"
		args = append(args, q.Of+".", q.Of+"/") // the next character
	}
	if q.Kind == view.Definitions {
		page.Definitions = map[task.Def]task.Definition{}
	}
	ref := view.Ref{Kind: q.Kind}
	var found []byte
	return each(ctx, tx, text+" ORDER BY id", args, []any{&ref.ID, &found}, func() error {
		if found == nil {
			return nil // it was not there yet
		}
		is := view.Nothing(ref)
		if err := readSubject(found, &is); err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
		switch {
		case is.Node != nil:
			page.Nodes = append(page.Nodes, *is.Node)
		case is.Queue != nil:
			page.Queues = append(page.Queues, *is.Queue)
		case is.Definition.Head > 0: // else none of its facts is readable
			page.Definitions[task.Def(ref.ID)] = *is.Definition
		}
		return nil
	})
}

// Get implements [view.View]. The index has nodes, queues and definitions without their facts.
func (p *then) Get(ctx context.Context, ref view.Ref) (is view.Item, err error) {
	if !ref.Kind.Few() {
		return p.World.Get(ctx, ref)
	}
	if err = ref.Validate(); err == nil {
		is, err = p.subject(ctx, ref)
	}
	if err == nil {
		err = view.Absent(ref, &is, 1)
	}
	return is, err
}

// subject returns a node, queue or definition as it was; one without facts if there was none.
func (p *then) subject(ctx context.Context, ref view.Ref) (is view.Item, err error) {
	err = p.store.from(ctx, p.at.Seq, func(tx *sql.Tx) error {
		is, err = scanSubject(tx.QueryRowContext(ctx, "SELECT doc FROM versions WHERE kind = ? AND id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
			int64(ref.Kind), ref.ID, int64(p.at.Seq)), ref)
		return err
	})
	return is, err
}

// facts is a [view.Facts]: those of nodes, queues and definitions the index finds.
func (p *then) facts(ctx context.Context, ref view.Ref) ([]events.Record, error) {
	if !ref.Kind.Few() {
		return p.log.About(ctx, ref)
	}
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	return p.about(ctx, ref)
}

// about returns the facts about a node, queue or definition: the index tells where in the log they are.
func (p *then) about(ctx context.Context, ref view.Ref) ([]events.Record, error) {
	var seqs []uint64
	beside := false
	err := p.store.from(ctx, p.at.Seq, func(tx *sql.Tx) error {
		var seq int64
		var reached position
		if err := reached.load(ctx, tx); err != nil {
			return err
		}
		if beside = reached.Below > 0 && ref.Kind == view.Definitions; beside {
			return nil
		}
		return each(ctx, tx, "SELECT seq FROM versions WHERE kind = ? AND id = ? AND seq <= ?", []any{int64(ref.Kind), ref.ID, int64(p.at.Seq)}, []any{&seq}, func() error {
			seqs = append(seqs, uint64(seq)) // it was one
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if beside { // the log has earlier changes elsewhere
		about, err := p.log.About(ctx, ref)
		return slices.DeleteFunc(events.Recall(about), func(r events.Record) bool { return r.Seq > p.at.Seq }), err
	}
	about, err := p.log.Messages(ctx, seqs)
	slices.SortFunc(about, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return about, err
}
