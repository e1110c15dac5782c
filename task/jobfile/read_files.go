package jobfile

import "millrace/task/job"

func (r *reader) files(v entry) *job.Files {
	var f job.Files
	if v.kind == text {
		f.Bundle = r.line(v)
		return &f
	}
	r.object(v, "the name of a bundle, a folder or a mapping such as {bundle: app}", r.fields(&f, setters{
		"bundle": into(&f.Bundle, r.line),
		"mode":   r.words(&f.Mode, job.FilesModes),
	}))
	return &f
}

// lines reads one line, or a list of lines.
func (r *reader) lines(v entry) []string {
	if v.kind == text {
		return []string{r.line(v)}
	}
	return r.list(v, r.line)
}

func (r *reader) artifacts(v entry) *job.Artifacts {
	var a job.Artifacts
	if v.kind == text || v.kind == list {
		a.Paths = r.lines(v)
		return &a
	}
	r.object(v, "patterns or a mapping such as {paths: [out/**], when: always}", r.fields(&a, setters{
		"paths": into(&a.Paths, r.lines),
		"when":  r.words(&a.When, job.ArtifactsWhen),
	}))
	return &a
}
