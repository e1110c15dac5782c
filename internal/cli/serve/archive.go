package serve

import (
	"millrace/events/jet"
	"millrace/events/jet/outputs"
	"millrace/history/incident"
	"millrace/internal/cli/settings"
	"millrace/scheduler"
)

// sealer keeps what the log forgets, where the setting archive says; nil if nowhere.
func (p *parts) sealer(store *jet.Store) scheduler.Sealer {
	where := p.settings.Archive
	if where == "" {
		return nil
	}
	s := &incident.Sealer{Log: store, To: incident.Folder(where), Import: store.Import()}
	if bucket, stored := settings.ArchiveBucket(where); stored {
		s.To = &outputs.Segments{Link: store.Link, Bucket: bucket, Replicas: p.settings.Replicas}
	}
	return s
}
