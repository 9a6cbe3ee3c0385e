"""Models that divide the space: trees and k-means."""
