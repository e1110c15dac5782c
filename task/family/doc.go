// Package family holds the rules of parents and their children: which children a parent has, what each of
// them is born as, and what becomes of the parent when they end.
package family
