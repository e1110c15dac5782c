package job

// MaxChildren is how many children a task may have.
const MaxChildren = 4096

// Parental tells whether a task of this spec starts no process itself, and is
// what its children are: it is running until the last of them has ended. They are one for
// each value of a list, or its steps, or one on each of several nodes; what is for each of a list
// may be the others as well, and then its children have children.
func (s *Spec) Parental() bool {
	return s != nil && (s.Each != nil || len(s.Steps) > 0 || s.Place.fans())
}

// Includes tells whether nodes that come late get children of a task of the spec.
func (s *Spec) Includes() bool {
	return s != nil && s.Each == nil && len(s.Steps) == 0 && s.Place.Late == LateInclude
}

// Placed tells whether tasks of the spec wait somewhere else than in a plain queue,
// or make others do so.
func (s *Spec) Placed() bool {
	return s.Place.Targeted() || s.Place.selective() || s.Place.fans() || s.Place.Prefers() || s.Cost() > 1
}
