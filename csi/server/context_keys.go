package server

// EpochKey is the publish context's key of the publication's epoch (S3).
const EpochKey = holdfastPrefix + "epoch"
