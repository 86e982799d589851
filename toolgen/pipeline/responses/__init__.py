"""Long answers: pages, chunks and chosen fields."""
