package admin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// DoctorList lists what the doctor found. Remedies are in lines of their own: both sentences beside each other are wider than a
// screen. A wide table has histograms, too.
var DoctorList listing.Lister = doctorList

// diagnosisRow is a diagnosis with what tells it from the others of an answer.
type diagnosisRow struct {
	*adminpb.Diagnosis

	id string
}

var doctorList = &listing.List[*adminpb.DoctorResponse, diagnosisRow]{
	Field: "findings",
	Rows:  diagnosisRows,
	Item:  func(d diagnosisRow) proto.Message { return d.Diagnosis },
	ID:    func(d diagnosisRow) string { return d.id },
	Columns: []listing.Column[diagnosisRow]{
		{Name: "SEVERITY", Cell: func(d diagnosisRow) any { return d.GetSeverity() }, Key: func(d diagnosisRow) any { return -slices.Index(severities, d.GetSeverity()) }},
		{Name: "SUBJECT", Cell: func(d diagnosisRow) any { return d.GetSubject() }},
		{Name: "FOUND", Cell: func(d diagnosisRow) any { return d.GetFound() }},
	},
	Below: func(d diagnosisRow, wide bool) (lines []string) {
		if d.GetRemedy() != "" {
			lines = append(lines, d.GetRemedy())
		}
		if wide && len(d.GetHistogram()) > 0 {
			lines = append(lines, histogramText(d.GetHistogram()))
		}
		return lines
	},
	Selectors: []listing.Selector[diagnosisRow]{
		{Flag: "severity", Usage: "only what is of this `severity`: " + strings.Join(severities, ", "), Valid: severities,
			Of: func(d diagnosisRow) []string { return []string{d.GetSeverity()} }},
		{Flag: "node", Usage: "only what is about `node`, its pools, and what it reaches", Of: func(d diagnosisRow) []string { return subjectNames(d.GetSubject(), "host") }},
		{Flag: "member", Usage: "only what is about the controller of this `name`, and who reaches it", Of: func(d diagnosisRow) []string { return subjectNames(d.GetSubject(), "member") }},
	},
	Foot: doctorFoot,
}

// subjectNames are the names of hosts or of members, as kind says, that a subject has. A pair may be of either.
func subjectNames(subject, kind string) []string {
	first, rest, _ := strings.Cut(subject, " ")
	switch _, node, onNode := strings.Cut(rest, " on "); {
	case first == kind:
		return []string{rest}
	case first == "pair":
		return strings.Split(rest, "/")
	case first == "pool" && onNode && kind == "host":
		return []string{node}
	}
	return nil
}

// measure is what changes of a sentence while what it says goes on: a duration, a size, a share or a number of times.
var measure = regexp.MustCompile(`\d+(\.\d+)?( ?%| [KMGT]?i?B\b| (entries|times)\b|(ns|µs|ms|s|m|h)(\d+(\.\d+)?(ms|s|m))*\b)`)

// diagnosisRows numbers those that differ in measures only: a disk that fills is one diagnosis that changes.
func diagnosisRows(a *adminpb.DoctorResponse) (rows []diagnosisRow) {
	seen := map[string]int{}
	for _, d := range a.GetFindings() {
		what := d.GetSubject() + "\x00" + measure.ReplaceAllString(d.GetFound(), "#")
		seen[what]++
		rows = append(rows, diagnosisRow{d, fmt.Sprint(what, "\x00", seen[what])})
	}
	return rows
}

// doctorFoot counts all that was found, whatever is shown of it.
func doctorFoot(a *adminpb.DoctorResponse) []string {
	counts, at := map[string]int{}, ""
	for _, d := range a.GetFindings() {
		counts[d.GetSeverity()]++
	}
	if a.GetIndex() != 0 {
		at = fmt.Sprintf(" at index %d", a.GetIndex())
	}
	return []string{fmt.Sprintf("%s, %d not known, %s%s", CountOf(counts[SeverityError], "error"), counts[SeverityUnknown], CountOf(counts[SeverityWarn], "warning"), at)}
}
