package jobfile

import (
	"millrace/task/job"
	"millrace/task/value"
)

func (r *reader) secrets(v entry) map[string]job.Secret {
	if v.kind != mapping {
		r.want(v, "a mapping such as {API_KEY: {file: /run/secrets/api_key}}")
		return nil
	}
	all := make(map[string]job.Secret, len(v.fields))
	for _, f := range v.fields {
		at := entry{f.node, join(v.path, f.name), f.pos}
		var s job.Secret
		if at.kind != mapping {
			r.want(at, "where the value is found, such as {file: /run/secrets/api_key}")
		}
		for _, f := range at.fields {
			if f.name != "file" {
				r.add(f.pos, join(at.path, f.name), "unknown field `%s`: a secret is read from a `file` on the node", excerpt(join(at.path, f.name)))
				continue
			}
			s.File = r.line(entry{f.node, join(at.path, f.name), f.pos})
		}
		all[f.name] = s
	}
	return all
}

func (r *reader) size(v entry) value.Size {
	var s value.Size
	switch v.kind {
	case text:
		var err error
		if s, err = value.ParseSize(v.text); err != nil {
			r.refuse(v, "%v", err)
		}
	case number:
		if v.text == "0" {
			break
		}
		n := excerpt(v.text)
		r.refuse(v, "the size %s has no unit: write %sB for bytes or %sMiB", n, n, n)
	default:
		r.want(v, "a size such as 64MiB")
	}
	return s
}
