package task

// A bucket holds copies of the definitions, for people who read them with other tools. The log is
// the truth: a copy that differs from it is written anew.

// CopyEvent is a fact about the copies of definitions. The set is closed.
type CopyEvent interface{ isCopyEvent() }

// CopiesRestored records that copies were changed by hand and that Millrace restored them.
type CopiesRestored struct {
	// Copies are the restored ones, at most [MaxRestored].
	Copies []Restored `json:"copies,omitzero"`
	// More is how many others were restored.
	More int `json:"more,omitzero"`
}

func (CopiesRestored) isCopyEvent() {}

// MaxRestored is how many copies a fact names.
const MaxRestored = 20

// Restored is a restored copy.
type Restored struct {
	// Of is the kind of the definition, such as "job", and Name its name.
	Of   string `json:"of" redact:"word"`
	Name string `json:"name" redact:"keep"`
	// Found is the digest of the foreign text; "" if the copy had been removed.
	Found string `json:"found,omitempty" redact:"hide"`
	// Revision is the restored revision; 0 if the name has no definition and the copy was removed.
	Revision uint64 `json:"revision,omitempty"`
}

// Copied is the present content of the place for a definition's copy.
type Copied struct {
	// There says that a copy is there, or was until it was removed.
	There bool
	// Text is the copy; nil if it was removed.
	Text []byte
	// Revision is the revision from which a server made the copy; 0 if a server did not make it.
	Revision uint64
}

// Restores tells whether a copy must be written anew, and whether that is because it was changed by
// hand. A server's copy of an earlier revision is only late, and a missing copy that never existed
// is new. A server's copy of a definition that the log does not know is left alone: it is the
// remainder of a lost log.
func (d *Definition) Restores(c Copied) (anew, byHand bool) {
	switch {
	case d.Exists() && d.Says(c.Text), !d.Exists() && len(c.Text) == 0, d.Revision == 0 && c.Revision > 0:
		return false, false
	}
	late := c.Revision > 0 && c.Revision < d.Revision
	return true, c.There && !late
}

// Gather adds restored copies to the fact.
func (e CopiesRestored) Gather(more ...Restored) CopiesRestored {
	room := max(0, min(MaxRestored-len(e.Copies), len(more)))
	e.Copies = append(e.Copies[:len(e.Copies):len(e.Copies)], more[:room]...)
	e.More += len(more) - room
	return e
}
