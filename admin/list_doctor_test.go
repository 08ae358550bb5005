package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

func doctorIDs(found ...*adminpb.Diagnosis) (ids []string) {
	for _, item := range DoctorList.ItemsOf(&adminpb.DoctorResponse{Findings: found}, listing.View{}) {
		ids = append(ids, item.ID)
	}
	return ids
}

// TestADiagnosisStaysItselfWhileItsMeasuresChange: a watch tells one that changes, and not one that goes and another that comes.
func TestADiagnosisStaysItselfWhileItsMeasuresChange(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		same          bool
	}{
		"a share":               {"it is 91 % full", "it is 92 % full", true},
		"a duration":            {"it has run for 59.5s", "it has run for 1h0m0.5s", true},
		"a size":                {"9.5 GiB of 10 GiB are free", "900 MiB of 10 GiB are free", true},
		"a number of times":     {"it has failed 3 times", "it has failed 14 times", true},
		"another disk":          {"disk 1 failed", "disk 2 failed", false},
		"another address":       {"it does not reach 10.0.0.1:9800", "it does not reach 10.0.0.2:9800", false},
		"other words about it":  {"it is 91 % full", "it is absent", false},
		"a name with a measure": {"volume pvc-5m is degraded", "volume pvc-x is degraded", false},
	} {
		for range 2 {
			before := doctorIDs(diagnose(SeverityWarn, "host n1", "", "%s", tc.before))
			after := doctorIDs(diagnose(SeverityError, "host n1", "", "%s", tc.after))
			require.Equal(t, tc.same, before[0] == after[0], name)
			other := doctorIDs(diagnose(SeverityWarn, "host n2", "", "%s", tc.before))
			require.NotEqual(t, before, other, name)
		}
	}
	full := diagnose(SeverityWarn, "host n1", "", "a filesystem is 91 %% full")
	fuller := diagnose(SeverityWarn, "host n1", "", "a filesystem is 95 %% full")
	require.Len(t, doctorIDs(full, fuller, full), 3, "none hides another")
}

func TestASubjectNamesItsHostsAndMembers(t *testing.T) {
	for subject, want := range map[string][2][]string{
		"host n1":           {{"n1"}, nil},
		"member c1":         {nil, {"c1"}},
		"pair n1/n2":        {{"n1", "n2"}, {"n1", "n2"}},
		"pair n1/c1":        {{"n1", "c1"}, {"n1", "c1"}},
		"pool pool-7 on n1": {{"n1"}, nil},
		"volume pvc-1":      {nil, nil},
		"cluster":           {nil, nil},
		"":                  {nil, nil},
	} {
		require.Equal(t, want, [2][]string{subjectNames(subject, "host"), subjectNames(subject, "member")}, subject)
	}
}
