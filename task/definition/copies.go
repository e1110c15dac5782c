package definition

// Copies of definitions lie in a bucket, for people who look at them with other means. The log is the truth:
// a copy that says something else is written anew.

// CopyEvent is a fact about the copies of definitions. The set is closed.
type CopyEvent interface{ isCopyEvent() }

// CopiesRestored says that somebody has changed copies by hand, and that they were set back.
type CopiesRestored struct {
	// Copies are which, at most [MaxRestored].
	Copies []Restored `json:"copies,omitzero"`
	// More is how many others there were.
	More int `json:"more,omitzero"`
}

func (CopiesRestored) isCopyEvent() {}

// MaxRestored is how many copies a fact names.
const MaxRestored = 20

// Restored is a copy that was set back.
type Restored struct {
	// Of is the kind of the definition, such as "job", and Name its name.
	Of   string `json:"of"`
	Name string `json:"name"`
	// Found is the digest of what somebody had put there; "" if the copy had been removed.
	Found string `json:"found,omitempty"`
	// Revision is what the copy shows again; 0 if nothing is defined under this name, and it was removed.
	Revision uint64 `json:"revision,omitempty"`
}

// Copied is what lies where the copy of a definition belongs.
type Copied struct {
	// There is whether anything does, or did until it was removed.
	There bool
	// Text is the copy; nil if it was removed.
	Text []byte
	// Revision is the one of which a server has made it; 0 if somebody else has.
	Revision uint64
}

// Restores tells whether a copy has to be written anew, and whether that is because somebody has changed it by
// hand: a copy that a server has made of an earlier revision is only late, and one that was never there is new. A
// server's copy of what the log has never heard of is left alone: it is what remains of a log that was lost.
func (d *Definition) Restores(c Copied) (anew, byHand bool) {
	switch {
	case d.Exists() && d.Says(c.Text), !d.Exists() && len(c.Text) == 0, d.Revision == 0 && c.Revision > 0:
		return false, false
	}
	late := c.Revision > 0 && c.Revision < d.Revision
	return true, c.There && !late
}

// Gather adds what was set back to a fact of it.
func (e CopiesRestored) Gather(more ...Restored) CopiesRestored {
	room := max(0, min(MaxRestored-len(e.Copies), len(more)))
	e.Copies = append(e.Copies[:len(e.Copies):len(e.Copies)], more[:room]...)
	e.More += len(more) - room
	return e
}
