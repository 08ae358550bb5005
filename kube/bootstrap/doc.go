// Package bootstrap decides, before a controller starts in a pod, whether its data folder founds the cluster (S167).
//
// The folder gets a random id, and the ConfigMap of the cluster names the id of the folder that founds it. A ConfigMap is created
// once, by whoever is first, and is never changed: that creation is the test and set. Only the folder whose id it names may
// found a cluster, and only while it holds none; the Raft member then still asks all other controllers first (S69), so that
// also a ConfigMap that somebody removed makes no second cluster.
//
// Whether a cluster is founded depends on what is found at each step alone, and each step may be done again:
//
//	folder                 ConfigMap             then
//	holds a cluster's log  names anything        the controller goes on with its log, and founds nothing
//	holds a cluster's log  is missing            the same; the ConfigMap is made again, and names no folder
//	holds none             names this folder     it founds
//	holds none             names another, none   it joins
//	holds none             is missing            it is made with this folder's id, and read again
//	cannot be read         -                     nothing is decided, and the controller does not start
//
// Without the API server nothing is decided for a folder that holds no log; one that holds a log needs no API server.
package bootstrap
