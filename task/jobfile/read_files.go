package jobfile

import "millrace/task"

func (r *reader) files(v value) *task.Files {
	var f task.Files
	if v.kind == text {
		f.Bundle = r.line(v)
		return &f
	}
	r.object(v, "the name of a bundle, a folder or a mapping such as {bundle: app}", setters{
		"bundle": func(v value) { f.Bundle = r.line(v) },
		"to":     func(v value) { f.To = r.text(v) },
		"mode":   func(v value) { f.Mode = r.oneOf(v, task.FilesModes) },
	})
	return &f
}

// lines reads one line, or a list of them.
func (r *reader) lines(v value) []string {
	if v.kind == text {
		return []string{r.line(v)}
	}
	return r.list(v, r.line)
}

func (r *reader) artifacts(v value) *task.Artifacts {
	var a task.Artifacts
	if v.kind == text || v.kind == list {
		a.Paths = r.lines(v)
		return &a
	}
	r.object(v, "patterns or a mapping such as {paths: [out/**], when: always}", setters{
		"paths": func(v value) { a.Paths = r.lines(v) },
		"when":  func(v value) { a.When = r.oneOf(v, task.ArtifactsWhen) },
	})
	return &a
}
