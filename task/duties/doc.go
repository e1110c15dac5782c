// Package duties says who must act next on a task, by when, and what happens otherwise.
package duties
