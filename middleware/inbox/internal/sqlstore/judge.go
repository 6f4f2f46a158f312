package sqlstore

// Verdict is what the text of one call tells, for handles on transactions that
// are not database/sql's.
type Verdict struct {
	// Refused is the error of a text that must not be sent. Nil otherwise.
	Refused error
	// Undoes: a ROLLBACK TO is among the statements.
	Undoes bool
	// Unjudged: the text does not tell whether the transaction stays open.
	Unjudged bool
	// Marks are its savepoints, for Points.
	Marks Marks
}

// Judge reads the text of one call.
func (g *Grammar) Judge(query string) Verdict {
	v := g.judge(query)
	return Verdict{Refused: v.err(), Undoes: v.undoes, Unjudged: v.unjudged, Marks: v.marks}
}
