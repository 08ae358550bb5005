package raftnode

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// checkTarget compares the target with this member. A member that has no cluster id yet is
// identified by its member id alone, which is random and never used twice: a caller can know
// a new member's id only from its Join or its Status. The first cluster id in a matching
// target is recorded permanently.
func (j *joiner) checkTarget(t *raftpb.Target) error {
	cluster := j.storage.clusterID()
	switch {
	case t.GetMemberId() != j.id:
		return fmt.Errorf("this is member %s, not %s", j.id, t.GetMemberId())
	case cluster == "" && t.GetClusterId() == "":
		return errors.New("the connection names no cluster")
	case cluster == "" && j.bootstrapper.bootstrapping.Load():
		return errors.New("this member is to make a cluster of its own")
	case cluster == "" && !j.inConfiguration():
		return j.recordClusterID(t.GetClusterId())
	case cluster != "" && t.GetClusterId() != cluster:
		return fmt.Errorf("this member belongs to cluster %s, not %s", cluster, t.GetClusterId())
	}
	return nil
}

// checkUntargeted admits untargeted connections only while a build without targets may be a
// member, and only after the cluster confirmed this process as a member under its own id.
func (j *joiner) checkUntargeted() error {
	if level := j.machine.cluster().FeatureLevel; level >= fsm.Level2 {
		return fmt.Errorf("at feature level %d a connection names its member: upgrade the controller that dials", level)
	}
	if !j.joined.Load() && !j.inConfiguration() {
		return errors.New("this member is in no configuration that it knows")
	}
	return nil
}
