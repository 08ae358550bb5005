package executor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A text that is no UTF-8 would make the Report, and all that is in it, unsendable.
func TestTextsOfReportsAreUTF8(t *testing.T) {
	said := []*fsmpb.Observation{
		{VolumeId: "v1", Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}},
		{VolumeId: "v2", Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "format", Error: "mkfs said \xff\xfe!"}}},
		{VolumeId: "v3", Fact: &fsmpb.Observation_Condition{Condition: &fsmpb.Condition{Message: "\xc3"}}},
	}
	_, err := proto.Marshal(&fsmpb.Report{Observations: said})
	require.Error(t, err)
	for range 2 {
		validTexts(said)
		_, err = proto.Marshal(&fsmpb.Report{Observations: said})
		require.NoError(t, err)
		require.Equal(t, "mkfs said \uFFFD!", said[1].GetStepFailed().GetError())
	}
}
