package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
)

// Decisions on a parent are repeated from its children at the sequence seen, and the choice of
// children from the nodes at the named sequence. Results and messages of children are kept only as
// digests, with which those in the fact are compared.

// expanded repeats the choice of a parent's children, or of additional ones.
func (s *story) expanded(v *Verifier, k *task.Task, e task.Expanded, r *events.Record) {
	if !v.whole() || !k.Spec.Parental() || len(s.rivals) > 0 || v.hidesList(k) {
		return
	}
	var nodes []node.Node
	if _, own := birth.OwnChildren(k); !own && len(k.Spec.Place.Nodes) == 0 {
		if e.AtSeq >= r.Seq {
			v.book.Checked[Decisions]++
			s.found(v, Decisions, []uint64{e.AtSeq, r.Seq}, "%s was decided by what came later, at %d", r.Fact.Type, e.AtSeq)
			return
		}
		known := false
		if nodes, known = v.pasts.At(e.AtSeq); !known {
			v.book.Forgotten++
			return
		}
	}
	by := findings.By(r)
	command := task.Command(node.Expand(k, nodes, e.AtSeq))
	switch by.Rule {
	case task.RuleBeats: // heartbeats are not in the log: the named nodes had one
		nodes = slices.DeleteFunc(nodes, func(n node.Node) bool {
			return !slices.Contains(e.Names, string(n.ID)) && !slices.Contains(e.Spares, string(n.ID))
		})
		command = task.Judged{Command: node.Expand(k, nodes, e.AtSeq), By: by}
	case "":
		if again := command.(task.Expand); len(k.Spec.Place.Nodes) > 0 {
			again.AtSeq = e.AtSeq
			command = again
		}
	}
	s.remade(v, k, command, r)
}

// hidesList tells whether an incident file has hidden the list of a parent.
func (v *Verifier) hidesList(k *task.Task) bool {
	return k.Spec != nil && k.Spec.Each != nil && k.Spec.Each.Result != "" && v.book.Hides(k.Inputs)
}

// concluded repeats the decision on the end of a parent.
func (s *story) concluded(v *Verifier, k *task.Task, e task.Concluded, r *events.Record) {
	if !v.whole() || len(s.rivals) > 0 || v.hidesList(k) {
		return
	}
	by := findings.By(r)
	var ends map[task.ID]task.End
	if k.Children != nil {
		if r.Fact.By == nil || by.Seen >= r.Seq || len(k.Children.Names) > 0 && by.Seen < k.Head {
			v.book.Checked[Decisions]++
			s.found(v, Decisions, []uint64{by.Seen, r.Seq}, "%s follows from its children as they were seen at %d, which is not between it and what the parent was", r.Fact.Type, by.Seen)
			return
		}
		overtaken := false
		if ends, overtaken = v.endsAt(k, by.Seen, e.Message); overtaken {
			v.book.Overtaken++
			return
		}
		if by.Unmade {
			birth.Unborn(k, ends)
		}
	}
	command, _ := birth.Follow(k, ends)
	end, ok := command.(task.Conclude)
	if !ok {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{by.Seen, r.Seq}, "%s does not follow from its children as they were at %d: %s", r.Fact.Type, by.Seen, birth.ProgressOf(k, ends))
		return
	}
	same := *r
	if name, strange := v.stranger(k); strange && by.Rule != task.RuleStranger {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{by.Seen, r.Seq}, "%s says nothing of task %s, which has the id of child %q and was not made by it", r.Fact.Type, birth.ChildID(k.ID, name), name)
		return
	}
	switch _, own := birth.OwnChildren(k); {
	case by.Rule == task.RuleStranger:
		name, ok := v.stranger(k)
		if _, field, cut := strings.Cut(e.Message, ": "); ok && cut {
			end = birth.Estranged(k, end, name, strings.TrimSuffix(field, " differs"))
		}
	case own && k.Children != nil:
		if wrong := v.gathered(k, ends, e.Result); wrong != "" {
			v.book.Checked[Decisions]++
			s.found(v, Decisions, []uint64{by.Seen, r.Seq}, "%s says of the results of its children: %s", r.Fact.Type, wrong)
			return
		}
		end.Result = e.Result
	}
	command = end
	if r.Fact.By != nil {
		command = task.Judged{Command: end, By: by}
	}
	s.remade(v, k, command, &same)
}

// endsAt returns the ends of a parent's children at a sequence, each with the message that the
// parent's end quotes, and whether a child was reopened since.
func (v *Verifier) endsAt(k *task.Task, seen uint64, told string) (ends map[task.ID]task.End, overtaken bool) {
	ends = make(map[task.ID]task.End, len(k.Children.Names))
	for _, name := range k.Children.Names {
		id := birth.ChildID(k.ID, name)
		o := v.tasks.known(id)
		switch {
		case o == nil || !o.born || o.bornAt > seen:
			continue
		case o.end != 0 && o.end <= seen:
			end := task.End{State: o.now.state, Reason: v.tasks.words.Text(o.now.reason), Seq: o.end}
			if said := o.kin.said; said.size > 0 {
				end.Message, told = said.find(&v.tasks.digests, told, name+" failed (")
			}
			ends[id] = end
		case slices.ContainsFunc(o.kin.earlier, func(end uint64) bool { return end <= seen }):
			return nil, true
		default:
			ends[id] = task.End{State: task.Running} // or any other fact than an end
		}
	}
	return ends, false
}

// find looks behind a mark for the text with the known length and digest, and returns a text to
// stand for it, and the rest.
func (s said) find(d *findings.Digests, in, mark string) (text, rest string) {
	i := strings.Index(in, mark)
	if i < 0 {
		return "", in
	}
	from := in[i+len(mark):]
	_, from, _ = strings.Cut(from, ": ")
	if len(from) < s.size || d.Text(from[:s.size]) != s.text {
		return "", in
	}
	if text, rest = from[:s.size], from[s.size:]; s.cut {
		text = strings.TrimSuffix(text, "…") + "😀😀" // which is cut off at the same place
	}
	return text, rest
}

// gathered compares the results of children with those in their parent's result.
func (v *Verifier) gathered(k *task.Task, ends map[task.ID]task.End, was json.RawMessage) string {
	if v.book.Hides(was) {
		return ""
	}
	children := make([]task.Task, 0, len(k.Children.Names))
	for _, name := range k.Children.Names {
		id := birth.ChildID(k.ID, name)
		child := task.Task{ID: id, State: ends[id].State}
		if o := v.tasks.known(id); o != nil && o.now.result != 0 && child.State == task.Finished {
			child.Result = filler(o.size)
		}
		children = append(children, child)
	}
	is := birth.Gather(k, children)
	had, has := results(was), results(is)
	if len(was) == 0 || was[0] != is[0] || len(had) != len(has) {
		return fmt.Sprintf("there are %d, and should be %d", len(had), len(has))
	}
	for name, is := range has {
		result, there := had[name]
		if string(is) == "null" {
			there = there && string(result) == "null"
		} else if o := v.tasks.known(birth.ChildID(k.ID, name)); there {
			there = v.tasks.digests.Raw(result) == o.now.result
		}
		if !there {
			return fmt.Sprintf("that of %q is another one", name)
		}
	}
	return ""
}

// results are the results of children by name, in either form.
func results(all json.RawMessage) map[string]json.RawMessage {
	var named map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(all, &named) == nil {
		return named
	}
	_ = json.Unmarshal(all, &list) // a result that is neither has none
	named = make(map[string]json.RawMessage, len(list))
	for i, result := range list {
		named[fmt.Sprint(i)] = result
	}
	return named
}

// stranger is the first child of a parent that the parent has not made.
func (v *Verifier) stranger(k *task.Task) (name string, ok bool) {
	if k.Children == nil || v.book.Hides(k.Params) {
		return "", false
	}
	births := birth.Births(k)
	for _, name := range k.Children.Names {
		o := v.tasks.known(birth.ChildID(k.ID, name))
		made := births(name)
		if o != nil && o.born && o.birth.work != v.tasks.wish(&made).work {
			return name, true
		}
	}
	return "", false
}
