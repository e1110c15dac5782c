package task

// JobEvent is a fact about the definition of a job: it was stored or removed.
// The definitions themselves lie beside the log; these facts say when and by
// whom they were changed. The set is closed.
type JobEvent interface{ isJobEvent() }

// JobApplied says that a definition was stored under the job's name.
type JobApplied struct {
	// Revision is that of the store of definitions, which tasks name.
	Revision uint64
	// Digest is "sha256:" and the hash of the definition as it is stored.
	Digest string
}

// JobRemoved says that the job's definition was removed; its tasks stay.
type JobRemoved struct {
	// Revision is that of the removal.
	Revision uint64
}

func (JobApplied) isJobEvent() {}
func (JobRemoved) isJobEvent() {}
