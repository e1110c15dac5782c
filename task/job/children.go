package job

// MaxChildren is how many children a task may have.
const MaxChildren = 4096

// Parental tells whether a task of this spec starts no process itself but has children. It runs
// until the last child has ended. The children are one per value of a list, or the steps, or one on
// each of several nodes. A child for a value of a list may itself be a parent of the other two
// kinds.
func (s *Spec) Parental() bool {
	return s != nil && (s.Each != nil || len(s.Steps) > 0 || s.Place.fans())
}

// Includes tells whether nodes that come later get children of a task of the spec.
func (s *Spec) Includes() bool {
	return s != nil && s.Each == nil && len(s.Steps) == 0 && s.Place.Late == LateInclude
}

// Placed tells whether tasks of the spec, or their children, wait elsewhere than in a plain queue.
func (s *Spec) Placed() bool {
	return s.Place.Targeted() || s.Place.selective() || s.Place.fans() || s.Place.Prefers() || len(s.Room()) > 0
}
