package projections

import (
	"reflect"
	"slices"
	"sync"

	"millrace/projections/view"
)

// jobLists are the first pages of lists of jobs' tasks, kept until a task of the job changes. The
// page of all jobs needs one for each job that had no task lately, and few of these change.
type jobLists struct {
	mu    sync.Mutex
	pages map[jobList]view.Page // guarded by mu
	tasks int                   // guarded by mu; in pages
	// changed has, for each job asked for, the sequence up to which one of its tasks has changed
	// since.
	changed map[string]uint64 // guarded by mu
	age     int               // guarded by mu; counts the calls of reset
}

// jobList names such a page.
type jobList struct {
	job           string
	roots, oldest bool
	limit         int
}

// Bounds of what jobLists keeps.
const (
	mostListedTasks = 5000
	mostListedJobs  = 1000
)

// jobListOf returns the name of the page that a filter asks for; false if it is none of these.
func jobListOf(f *view.Filter) (jobList, bool) {
	only := view.Filter{Job: f.Job, Roots: f.Roots, Limit: f.Limit, OldestFirst: f.OldestFirst}
	return jobList{f.Job, f.Roots, f.OldestFirst, f.Limit}, f.Job != "" && reflect.DeepEqual(only, *f)
}

func (j *jobLists) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.clear()
}

func (j *jobLists) clear() {
	j.pages, j.changed, j.tasks = map[jobList]view.Page{}, map[string]uint64{}, 0
	j.age++
}

// get returns a page if no task of the job has changed up to the sequence reached. Otherwise pass
// age to put with the page that is read now.
func (j *jobLists) get(list jobList, reached uint64) (page view.Page, age int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if page, ok = j.pages[list]; ok && j.changed[list.job] <= page.Point.Seq {
		page.Tasks, page.Point.Seq = slices.Clone(page.Tasks), max(page.Point.Seq, reached)
		return page, j.age, true
	}
	if _, known := j.changed[list.job]; !known {
		if len(j.changed) == mostListedJobs {
			j.clear()
		}
		j.changed[list.job] = 0
	}
	return page, j.age, false
}

// put keeps a page that was read after get.
func (j *jobLists) put(list jobList, page view.Page, age int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.age != age || len(page.Tasks) > mostListedTasks {
		return // changes may have been missed
	}
	j.tasks += len(page.Tasks) - len(j.pages[list].Tasks)
	if j.tasks > mostListedTasks {
		j.pages, j.tasks = map[jobList]view.Page{}, len(page.Tasks)
	}
	page.Tasks = slices.Clone(page.Tasks)
	j.pages[list] = page
}

// note records that tasks have changed, before any answer reflects the sequence seq.
func (j *jobLists) note(changes []change, seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.changed) == 0 {
		return
	}
	for i := range changes {
		for _, job := range []string{changes[i].task.Job, changes[i].was} {
			if _, asked := j.changed[job]; asked {
				j.changed[job] = seq
			}
		}
	}
}
