package task

import "time"

// Ends lets tests see when the lease of t's live attempt ends by the account, and why.
func (a *Account) Ends(t *Task) (until time.Time, ground string, heard time.Time) { return a.ends(t) }

// TakenOver lets tests see what the next attempt of t names of the account.
func (a *Account) TakenOver(t *Task) (*TookOver, error) { return a.ended(t) }
