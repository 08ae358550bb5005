package agent

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A text that is not UTF-8 would keep the Report, with everything in it, from being sent.
func TestTextsOfReportsAreUTF8(t *testing.T) {
	said := []*fsmpb.Observation{
		{VolumeId: "v1", Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}},
		{VolumeId: "v2", Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "format", Error: "mkfs said \xff\xfe!"}}},
		{VolumeId: "v3", Fact: &fsmpb.Observation_Condition{Condition: &fsmpb.Condition{Message: "\xc3"}}},
	}
	_, err := proto.Marshal(&fsmpb.Report{Observations: said})
	require.Error(t, err)
	for range 2 {
		sanitizeTexts(said)
		_, err = proto.Marshal(&fsmpb.Report{Observations: said})
		require.NoError(t, err)
		require.Equal(t, "mkfs said \uFFFD!", said[1].GetStepFailed().GetError())
	}
}

// S31, S73: what the log has already is not reported again, however long the host's text is.
func TestS73_ALongReasonIsReportedOnce(t *testing.T) {
	said := errors.New("unmount: in use by " + strings.Repeat("é\xff", 1000))
	a, v := assemble(Config{}), &volume{}
	a.volumeReports.reports = nil
	for _, known := range []string{clipText(said.Error()), fsm.Clip(clipText(said.Error()))} {
		desired := &fsm.DesiredVolume{Publication: &fsm.Publication{Ending: true, UsedBy: known}}
		a.volumeReports.reportInUse(v, desired, said) // there is nothing to send with
	}
	require.Less(t, len(clipText(said.Error())), len(said.Error()))
	require.True(t, utf8.ValidString(clipText(said.Error())))
}
